"""NumPy's ufuncs, traced: every one of the table, at every kind of type that it takes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.doors.jit.elementwise import FORMS
from tests.support.traced_functions import check, run_graph

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


@pytest.mark.parametrize("name", sorted(FORMS))
def test_every_ufunc_gives_what_numpy_gives(name: str) -> None:
    ufunc = getattr(np, name)
    tried = 0
    for operands in OPERANDS.values():
        given = operands[: ufunc.nin]
        if name in ("arccosh", "arccos", "arcsin", "arctanh"):
            given = tuple(np.asarray(a + 1 if name == "arccosh" else a / 10) for a in given)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                ufunc(*given)
        except TypeError:
            continue
        tried += 1
        if name != "reciprocal" or np.result_type(*given).kind == "f":
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


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_signed_and_unsigned_numbers_are_compared_exactly(name: str) -> None:
    ufunc = getattr(np, name)
    signed = np.array([-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1])
    unsigned = np.array([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    check(lambda a, b: (ufunc(a[:, None], b), ufunc(b, a[:, None])), signed, unsigned)
    check(lambda b: (ufunc(b, np.int64(-1)), ufunc(np.int32(3), b), ufunc(signed[:2], b[:2])), unsigned)
    check(lambda a: (ufunc(a, np.uint64(2**64 - 1)), ufunc.outer(unsigned, a)), signed)


def test_numbers_of_numpy_have_strong_types() -> None:
    check(lambda x: x * np.float64(0.1), F32)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 2.5])
def test_powers_of_floats(exponent: float) -> None:
    check(lambda x: x**exponent, F32)


@pytest.mark.parametrize("exponent", [0, -0.0, 1, 2, 3, 4, -1, np.inf, -np.inf, np.nan])
def test_powers_of_what_is_no_number(exponent: float) -> None:
    check(lambda x: (x**exponent, x ** np.array([exponent])), SPECIAL)


def test_powers_of_integers_wrap() -> None:
    check(lambda x: (x**5, x**2, x**0), I32 * 1000)
    with pytest.raises(ms.TraceError, match="negative integer powers"):
        ms.jit(lambda x: x**-1).graph(I32)


def test_whole_parts_and_cube_roots() -> None:
    for x in (F32, SPECIAL):
        check(lambda x: (np.modf(x), np.cbrt(x), np.cbrt(-x * 1000)), x)


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


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -3.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, 6.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles_in_every_quarter(dtype: Any) -> None:
    y, x = np.meshgrid(SPECIAL[:-3].astype(dtype), SPECIAL[:-3].astype(dtype))
    check(np.arctan2, y, x)
    graph = ms.jit(np.arctan2).graph(y, x)
    have, want = run_graph(graph, [y, x])[0], np.arctan2(y, x)
    np.testing.assert_array_equal(np.signbit(have[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))
    check(lambda x: (np.arcsin(x), np.arccos(x), np.arctan(x)), np.linspace(-1, 1, 33).astype(dtype))


@pytest.mark.parametrize("ufunc", [np.remainder, np.floor_divide, np.fmod])
def test_quotients_of_doubles_are_exact(ufunc: np.ufunc) -> None:
    a = np.concatenate(
        [R.uniform(-20, 20, 300), np.round(R.uniform(-9, 9, 300), 1), [1.0, 0.3, -1.0, 7e6, -7e6, 1e300]]
    )
    b = np.concatenate([R.uniform(-2, 2, 300), R.choice([0.1, 0.2, -0.3, 0.7], 300), [0.1, 0.1, 0.1, 0.7, 0.7, 3e299]])
    have, want = run_graph(ms.jit(ufunc).graph(a, b), [a, b])[0], ufunc(a, b)
    np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(np.signbit(have), np.signbit(want))
    np.testing.assert_array_equal(ms.jit(ufunc)(a, b), want)
    finite, divisors = np.meshgrid(SPECIAL, SPECIAL[[2, 3, 4, 5, 6, 7, 8]])
    near = ~(np.abs(finite) > 1e200)  # quotients beyond are rounded
    check(ufunc, finite[near], divisors[near])
    check(ufunc, SPECIAL, np.zeros(SPECIAL.size))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_whole_quotients_of_zeros_and_infinities(dtype: Any) -> None:
    a, b = (x.astype(dtype) for x in np.meshgrid(SPECIAL[:-3], SPECIAL[:-3]))
    graph = ms.jit(np.floor_divide).graph(a, b)
    with np.errstate(all="ignore"):
        want = np.floor_divide(a, b)
    have = run_graph(graph, [a, b])[0]
    np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(np.signbit(have[want == 0]), np.signbit(want[want == 0]))
    check(lambda a: a // 0.0, a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_quotients_without_units_nothing_remains(dtype: Any) -> None:
    a, b = (x.ravel() for x in np.meshgrid(np.array([1e30, -1e30, np.finfo(dtype).max]), [1e-20, 0.1, 7, -7]))
    a, b = a.astype(dtype), b.astype(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run_graph(ms.jit(np.floor_divide).graph(a, b), [a, b])[0], np.floor_divide(a, b))
    for ufunc in (np.remainder, np.fmod):
        assert not run_graph(ms.jit(ufunc).graph(a, b), [a, b])[0].any()


@pytest.mark.parametrize("ufunc", [np.remainder, np.fmod, np.sign])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_zeros_have_numpys_signs(ufunc: np.ufunc, dtype: Any) -> None:
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.inf, -np.inf, np.nan], dtype)
    given = np.meshgrid(numbers, numbers)[: ufunc.nin]
    with np.errstate(all="ignore"):
        want = ufunc(*given)
    have = run_graph(ms.jit(ufunc).graph(*given), given)[0]
    np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(np.signbit(have[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("ufunc", [np.remainder, np.fmod, np.floor_divide, np.copysign])
def test_a_second_operand_may_be_zero(ufunc: np.ufunc) -> None:
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ms.jit(lambda x: ufunc(x, 0.0))(F32), ufunc(F32, 0.0))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.uint64])
def test_integers_are_compared_with_numbers_beyond_their_type(dtype: Any) -> None:
    x = np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    for number in (-1, 255, 300, -(2**70), 2**70):
        check(lambda x: (x == number, x != number, x < number, number < x, number >= x, x > number), x)  # noqa: B023


def test_parts_of_whole_numbers_have_numpys_types() -> None:
    for dtype in (bool, np.int8, np.uint16, np.int64):
        check(lambda x: (np.modf(x), np.vecdot(x, x), np.linalg.vecdot(x, x, axis=0)), I32.astype(dtype))
        check(lambda x: np.logaddexp.reduce(x, axis=1), I32.astype(dtype), tolerance=1e-2)
        check(lambda x: np.maximum.reduce(x, dtype=np.float32), I32.astype(dtype))


def test_zeros_and_other_numbers_are_literals() -> None:
    assert "max(A[i0, i1], 0.0)" in str(ms.jit(lambda x: np.maximum(x, 0)).graph(F32))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("places", [0, 7, 8, 40, 200])
@pytest.mark.parametrize("shift", [np.left_shift, np.right_shift])
def test_a_constant_shift_beyond_the_type_shifts_everything_out(shift: np.ufunc, places: int, dtype: type) -> None:
    x = np.array([-5, 3, 100, -128, 0]).astype(dtype)
    if np.can_cast(np.min_scalar_type(places), dtype):
        found = ms.jit(lambda x: shift(x, places))(x)
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, shift(x, places))
        deep = np.array([[[places]]], dtype)
        np.testing.assert_array_equal(ms.jit(lambda x: shift(x, deep))(x), shift(x, deep), strict=True)
