"""NumPy's ufuncs, traced: every one of the table, at every kind of type that it takes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.doors.jit.elementwise import FORMS
from tests.support.traced_functions import check

R = np.random.default_rng(0)
F32 = (R.random((2, 3)) + 0.25).astype(np.float32)
I32 = R.integers(-9, 9, (2, 3)).astype(np.int32)
OPERANDS = {
    "f16": (F32.astype(np.float16), F32.astype(np.float16) + np.float16(1)),
    "f32": (F32 - np.float32(0.6), F32[::-1]),
    "f64": (F32.astype(np.float64), np.array([0.5, -2.0, np.inf])),
    "i32": (I32, np.where(I32 == 0, 3, I32)[0].astype(np.int32)),
    "u8": (np.array([[0, 7, 255]], np.uint8), np.array([[2], [0]], np.uint8)),
    "u32": (np.array([[0, 7, 2**32 - 1]], np.uint32), np.array([[2], [0], [2**31 + 1]], np.uint32)),
    "u64": (np.array([[0, 7, 2**64 - 1]], np.uint64), np.array([[2], [0], [2**63 + 1]], np.uint64)),
    "bool": (F32 > 0.6, F32[0] > 0.5),
    "mixed": (I32, F32),
}
# Of floats that are wide enough; a scalar's own type counts.
REFUSED = {("floor_divide", "f64"), ("fmod", "f64"), ("remainder", "f64")}
REFUSED |= {(name, "mixed") for name, _ in REFUSED}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_every_ufunc_gives_what_numpy_gives(name: str) -> None:
    ufunc = getattr(np, name)
    tried = 0
    for kind, operands in OPERANDS.items():
        given = operands[: ufunc.nin]
        if name in ("arccosh", "arctanh"):
            given = tuple(np.asarray(a + 1 if name == "arccosh" else a / 4) for a in given)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                ufunc(*given)
        except TypeError:
            continue
        tried += 1
        if (name, kind) in REFUSED:
            with pytest.raises(ms.TraceError, match="cannot be computed exactly"):
                ms.jit(ufunc).graph(*given)
        elif name != "reciprocal" or np.result_type(*given).kind == "f":
            check(ufunc, *given)
    assert tried


@pytest.mark.parametrize(
    ("array", "number"),
    [(F32, 2), (F32, 0.1), (F32, True), (I32, 3), (I32, 0.5), (OPERANDS["u8"][0], 200), (F32, -0.0)],
)
def test_python_numbers_have_weak_types(array: Any, number: float) -> None:
    check(lambda x: (x + number, number - x, x * number, x > number), array)


def test_a_number_that_does_not_fit_is_refused_as_by_numpy() -> None:
    with pytest.raises(ms.TraceError, match="300"):
        ms.jit(lambda x: x + 300).graph(OPERANDS["u8"][0])


def test_numbers_of_numpy_have_strong_types() -> None:
    check(lambda x: x * np.float64(0.1), F32)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 2.5])
def test_powers_of_floats(exponent: float) -> None:
    check(lambda x: x**exponent, F32)


def test_powers_of_integers_wrap() -> None:
    check(lambda x: (x**5, x**2, x**0), I32 * 1000)
    with pytest.raises(ms.TraceError, match="negative integer powers"):
        ms.jit(lambda x: x**-1).graph(I32)


def test_bits() -> None:
    check(lambda x, y: (x & y, x | 3, x ^ y, ~x, x << 3, x >> 1), I32, I32[::-1])
    check(lambda x, y: (x & y, x | y, x ^ 3, ~x, x << 3, x >> 63), *OPERANDS["u64"])


def test_a_type_that_the_language_lacks_is_named() -> None:
    with pytest.raises(ms.TraceError, match="no element type complex128"):
        ms.jit(lambda x: x + np.complex128(1)).graph(F32)


def test_numbers_without_a_sign() -> None:
    check(
        lambda x: (np.sum(x), x.astype(np.uint32) * x, x // np.uint64(3), -x, x.astype(np.float32)), OPERANDS["u8"][0]
    )


def test_a_ufunc_without_a_form_is_named() -> None:
    with pytest.raises(ms.TraceError, match=r"np\.nextafter of f32 has no form"):
        ms.jit(np.nextafter).graph(F32, F32)


def test_zeros_and_other_numbers_are_literals() -> None:
    assert "max(A[i0, i1], 0.0)" in str(ms.jit(lambda x: np.maximum(x, 0)).graph(F32))
