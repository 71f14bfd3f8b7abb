"""Ufuncs of `scipy.special`, traced."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import metasched as ms
from metasched.doors.jit.scipy_ufuncs import SPECIAL_FORMS
from tests.support.traced_functions import check

R = np.random.default_rng(4)
EDGES = np.array([0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(SPECIAL_FORMS))
def test_every_one_gives_what_scipy_gives(name: str) -> None:
    ufunc = getattr(scipy.special, name)
    for kind in (np.float64, np.float32):
        numbers = (R.random((ufunc.nin, 40)) * 0.9 + 0.05).astype(kind)
        check(ufunc, *numbers, tolerance=256 * float(np.finfo(kind).eps))
    check(ufunc, *(np.array([1, 2, 3]) for _ in range(ufunc.nin)))


@pytest.mark.parametrize("name", ["entr", "erf", "erfc", "expit", "log_expit", "ndtr", "logit", "exp10"])
def test_of_the_ends_of_the_numbers(name: str) -> None:
    check(getattr(scipy.special, name), EDGES)


@pytest.mark.parametrize("name", ["gammaln", "psi"])
def test_gamma_functions_of_all_numbers(name: str) -> None:
    x = np.concatenate(
        [EDGES[:-2], R.uniform(-20, 20, 200), [1e-300, -1e-20, 7.999999, 8.0, 1e300, -1.5, np.inf, np.nan]]
    )
    check(getattr(scipy.special, name), x, tolerance=1e-12)


@pytest.mark.parametrize("name", ["huber", "kl_div", "rel_entr", "xlogy", "xlog1py"])
def test_of_pairs_of_the_ends(name: str) -> None:
    ufunc = getattr(scipy.special, name)
    finite = EDGES[:4]
    check(lambda x: ufunc(x[:, None], x), finite)
    check(lambda x: (ufunc(x, np.nan), ufunc(np.nan, x)), finite)


def test_another_one_is_refused_by_its_name() -> None:
    with pytest.raises(ms.TraceError, match="the ufunc `i0` of f64 has no form"):
        ms.jit(scipy.special.i0).graph(EDGES)
