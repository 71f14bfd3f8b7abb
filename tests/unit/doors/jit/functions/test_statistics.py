"""Medians, quantiles, covariances, and statistics of what is not NaN, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(11)
A = R.standard_normal((3, 4, 5)).astype(np.float32)
N = np.where(R.random((4, 6)) < 0.3, np.nan, R.standard_normal((4, 6)))
N[:, 0] = R.standard_normal(4)
ROWS = R.integers(-9, 9, (4, 5))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_medians_and_quantiles(axis: Any) -> None:
    for x in (A, A[:, :3], ROWS):
        if isinstance(axis, tuple) and x.ndim < 3:
            continue
        check(lambda x: (np.median(x, axis), np.median(x, axis, keepdims=True)), x)
        check(lambda x: (np.quantile(x, 0.3, axis), np.percentile(x, [0, 10, 50, 100], axis)), x, tolerance=1e-5)


def test_ways_between_elements() -> None:
    for method in ("linear", "lower", "higher", "nearest", "midpoint"):
        check(lambda x, m=method: np.quantile(x, [0.1, 0.55], axis=1, method=m), A, tolerance=1e-5)
    check(lambda x: (np.quantile(x, [0, 1]), np.quantile(x, 1, axis=0)), ROWS)
    check(lambda x: (np.quantile(x, 0.4), np.quantile(x, 0.6)), np.array([1.0, np.inf]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_places_of_more_digits_than_elements(dtype: Any) -> None:
    rows = A[0].astype(dtype)
    check(lambda x: (np.percentile(x, [10, 37], axis=1), np.quantile(x, [0.1, 0.55], method="midpoint")), rows)


@pytest.mark.filterwarnings("ignore:Degrees of freedom")
def test_of_nan() -> None:
    check(lambda x: (np.median(x, 1), np.quantile(x, 0.5, 1)), N)
    for function in (np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmax, np.nanmin, np.nanmedian):
        check(lambda x, f=function: (f(x), f(x, axis=1), f(x, axis=0, keepdims=True)), N)
        check(lambda x, f=function: f(x, axis=0), ROWS)
    for function in (np.nanmax, np.nanmin):
        check(lambda x, f=function: (f(x, initial=0.5), f(x, axis=0, initial=-9), f(x, where=x < 9, initial=0)), N)
    for lost in (2, 4, 23):
        check(lambda x, n=lost: (np.nanvar(x, ddof=n), np.nanstd(x, axis=0, ddof=n), np.nanvar(x, 1, ddof=n)), N)
    check(lambda x: (np.nanargmax(x, axis=1), np.nanargmin(x), np.nancumsum(x, 1), np.nancumprod(x, 0)), N)


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantiles_of_what_is_not_nan(dtype: Any) -> None:
    rows = N.astype(dtype)
    for method in ("linear", "lower", "higher", "nearest", "midpoint"):
        check(lambda x, m=method: np.nanquantile(x, [0, 0.2, 0.55, 1], axis=1, method=m), rows, tolerance=1e-5)
    check(lambda x: (np.nanquantile(x, 0.3), np.nanpercentile(x, 90, axis=0, keepdims=True)), rows, tolerance=1e-5)
    check(lambda x: (np.nanpercentile(x, [10, 50]), np.nanquantile(x * np.nan, 0.5)), rows, tolerance=1e-5)
    check(lambda x: np.nanpercentile(x, [10, 50], axis=1), ROWS)


def test_weighted_means() -> None:
    check(lambda x: (np.average(x), np.average(x, axis=1, weights=np.arange(4.0)), np.average(x, weights=x * x)), A)
    check(lambda x: np.average(x, weights=(x * x).astype(np.float32)), ROWS.astype(np.int8))
    check(lambda x: np.average(x, axis=0, weights=[1, 2, 3, 4], returned=True)[0], ROWS)
    with pytest.raises(ms.TraceError, match="those of no axes"):
        ms.jit(lambda x: np.average(x, weights=[1, 2])).graph(ROWS)


def test_covariances() -> None:
    x = A[0]
    check(lambda x: (np.cov(x), np.cov(x, rowvar=False, ddof=0), np.cov(x[0], x[1]), np.cov(x[0]), np.corrcoef(x)), x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.quantile(x, x[0, 0, 0]), "a quantile's place is computed from data"),
        (lambda x: np.quantile(x, 0.5, method="hazen"), "'hazen'"),
        (lambda x: np.quantile(x, 2), "between 0 and 1"),
        (lambda x: np.quantile(x > 0, 0.5), "NumPy subtracts no bools"),
        (lambda x: np.cov(x[0], aweights=x[0, 0]), "weights"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(A)
