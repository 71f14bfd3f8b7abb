"""Floats of at most 8 bits: every code, and every rounding, against numbers that are worked out here from the formats.

Both references and machine code have to agree with them, with instructions for f16 and without.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs

Array = np.ndarray[Any, Any]
WIDE = ms.Target.detect(threads=1)
NARROW = WIDE.without(f for f in WIDE.features if f.startswith("avx") or f in {"fma", "f16c"})


class Format(NamedTuple):
    """As the papers have them: bits of the exponent and of the fraction, and the exponent's bias.

    `top` says what the last codes are: "ieee", "nan" (the last one alone), "zero" (NaN is where -0 would be), "" (all
    are numbers).
    """

    exponent: int
    fraction: int
    bias: int
    top: str

    @property
    def sign(self) -> int:
        return int(2 ** (self.exponent + self.fraction))

    def value(self, code: int) -> float:
        """What a code stands for."""
        negative, size = divmod(code, self.sign)
        exponent, fraction = divmod(size, 2**self.fraction)
        if self.top == "zero" and code == self.sign:
            return math.nan
        if self.top == "nan" and size == self.sign - 1:
            return math.nan
        if self.top == "ieee" and exponent == 2**self.exponent - 1:
            return math.nan if fraction else -math.inf if negative else math.inf
        whole = fraction + (2**self.fraction if exponent else 0)
        scaled = Fraction(whole) * Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction)
        return -float(scaled) if negative else float(scaled)


FORMATS = {
    "f8e4m3fn": Format(4, 3, 7, "nan"),
    "f8e4m3fnuz": Format(4, 3, 8, "zero"),
    "f8e5m2": Format(5, 2, 15, "ieee"),
    "f8e5m2fnuz": Format(5, 2, 16, "zero"),
    "f4e2m1": Format(2, 1, 1, ""),
}


def values(name: str) -> Array:
    """What all codes stand for, in f32."""
    return np.array([FORMATS[name].value(code) for code in range(2 * FORMATS[name].sign)], np.float32)


def codes(name: str) -> Array:
    """All of a type: 256, or 16 of one of 4 bits."""
    return np.arange(2 * FORMATS[name].sign, dtype=np.uint8).view(DType(name).numpy)


def executors() -> dict[str, Callable[[ms.Program, Array], Array]]:
    def referred(execute: Callable[..., None]) -> Callable[[ms.Program, Array], Array]:
        def run(program: ms.Program, array: Array) -> Array:
            state = new_state(program.func, {"A": array}, {})
            execute(program.func, state)
            return outputs(program.func, state)[0]

        return run

    def compiled(target: ms.Target, lanes: int) -> Callable[[ms.Program, Array], Array]:
        def run(program: ms.Program, array: Array) -> Array:
            schedule = ms.Schedule(program)
            if lanes:
                schedule.vectorize(schedule.get_loops(schedule.get_block("C"))[0], lanes=lanes)
            return np.asarray(ms.compile(program, trace=schedule.trace, target=target)(array))

        return run

    return {
        "interpreted": referred(interpret),
        "compiled reference": referred(run_compiled),
        "scalar": compiled(WIDE, 0),
        "vectors": compiled(WIDE, 16),
        "scalar without instructions for f16": compiled(NARROW, 0),
        "vectors without instructions for f16": compiled(NARROW, 8),
    }


def program(source: str, target: str, length: int) -> ms.Program:
    return ms.parse_program(f"program p(A: {source}[{length}]) -> C: {target}[{length}]:\n    C[i] = {target}(A[i])\n")


@pytest.mark.parametrize("how", executors())
@pytest.mark.parametrize("name", FORMATS)
def test_every_code_stands_for_its_number(name: str, how: str) -> None:
    found = executors()[how](program(name, "f32", codes(name).size), codes(name))
    np.testing.assert_array_equal(found, values(name))
    numbers = ~np.isnan(found)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(values(name)[numbers]))


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_of_types_says_the_same(name: str) -> None:
    finite = values(name)[np.isfinite(values(name))]
    dtype, kind = DType(name), FORMATS[name]
    assert dtype.properties.float is not None
    assert dtype.properties.float.largest == finite.max()
    assert dtype.highest == (np.inf if kind.top == "ieee" else finite.max())
    assert dtype.smallest_normal == 2.0 ** (1 - kind.bias)


@cache
def finite_numbers(name: str) -> tuple[tuple[float, int], ...]:
    """What codes from zero up stand for, and the codes."""
    known = ((FORMATS[name].value(code), code) for code in range(FORMATS[name].sign))
    return tuple((value, code) for value, code in known if math.isfinite(value))


def rounded(name: str, x: float) -> float:
    """The nearest number, of two the one with the even code; worked out from the list of all numbers."""
    kind = FORMATS[name]
    if math.isnan(x):
        return math.nan if kind.top else 0.0
    finite = list(finite_numbers(name))
    largest, last = finite[-1]
    # One more number, as if the exponent had no end: what is nearer to it than to the largest is beyond.
    step = largest - finite[-2][0]
    finite.append((largest + step, last + 1))
    size = abs(x)
    value = math.inf
    if math.isfinite(x):
        value, _ = min(finite, key=lambda one: (abs(Fraction(one[0]) - Fraction(size)), one[1] % 2))
    if size > largest + step or value > largest:
        value = {"ieee": math.inf, "nan": math.nan, "zero": math.nan, "": largest}[kind.top]
    return math.copysign(value, x) if value or kind.top != "zero" else 0.0


def interesting(name: str) -> Array:
    """Every number, every middle of two, what is beside each, and some of any size."""
    numbers = values(name)
    exact = np.unique(numbers[np.isfinite(numbers)]).astype(np.float32)
    middles = ((exact[1:].astype(np.float64) + exact[:-1]) / 2).astype(np.float32)
    ends = exact[-1] * np.array([1.0, 1.03, 1.0625, 1.07, 1.125, 1.25, 1.5, 2.0, 1e30], np.float32)
    tiny = np.array([1e-45, 1e-38, 1e-30, np.inf, 3.4e38], np.float32)
    given = np.concatenate([exact, middles, ends, -ends, tiny, -tiny])
    around = [given, np.nextafter(given, np.float32(np.inf)), np.nextafter(given, np.float32(-np.inf))]
    drawn = np.random.default_rng(0).integers(0, 2**32, 400, dtype=np.uint32).view(np.float32)
    return np.concatenate([*around, drawn, np.array([np.nan, -np.nan, 0.0, -0.0], np.float32)])


@cache
def interesting_and_rounded(name: str) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        given = interesting(name)
    return given, np.array([rounded(name, float(x)) for x in given], np.float32)


@pytest.mark.parametrize("how", executors())
@pytest.mark.parametrize("name", FORMATS)
def test_numbers_are_rounded_to_the_nearest(name: str, how: str) -> None:
    given, expected = interesting_and_rounded(name)
    found = executors()[how](program("f32", name, given.size), given)
    assert found.dtype == DType(name).numpy
    got = values(name)[found.view(np.uint8)]
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected) & ~np.isnan(given)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


def power(x: float) -> float:
    """The nearest power of two from 2**-127 to 2**127, the larger one of two, by its definition."""
    if not x > 0 or x >= 1.5 * 2.0**127:
        return math.nan
    below = 2.0 ** max(math.frexp(x)[1] - 1, -127)
    return 2 * below if x >= 1.5 * below else below


@pytest.mark.parametrize("how", executors())
def test_numbers_are_rounded_to_powers_of_two(how: str) -> None:
    powers = np.exp2(np.arange(-127, 128)).astype(np.float32)
    middles = (powers.astype(np.float64) * 1.5).astype(np.float32)
    tiny = np.array([1, 2**21, 2**22 - 1, 2**22 + 2**20], np.uint32).view(np.float32)
    given = np.concatenate([powers, middles, tiny, [0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, -np.nan]]).astype(
        np.float32
    )
    given = np.concatenate([given, np.nextafter(given, np.float32(np.inf)), np.nextafter(given, np.float32(-np.inf))])
    found = executors()[how](program("f32", "f8e8m0", given.size), given)
    assert found.dtype == DType.F8E8M0.numpy
    expected = np.array([power(float(x)) for x in given], np.float32)
    codes = np.where(np.isnan(expected), 255, np.log2(np.nan_to_num(expected, nan=1.0)) + 127)
    np.testing.assert_array_equal(found.view(np.uint8), codes)
    back = executors()[how](program("f8e8m0", "f32", 256), np.arange(256, dtype=np.uint8).view(DType.F8E8M0.numpy))
    np.testing.assert_array_equal(back, np.append(powers, np.float32(np.nan)))


def test_the_largest_of_powers_of_two_starts_at_the_smallest() -> None:
    program = ms.parse_program("program p(A: f8e8m0[2, 3]) -> C: f8e8m0[2]:\n    C[i] = max[k](A[i, k])\n")
    given = np.array([[0, 0, 0], [7, 9, 8]], np.uint8).view(DType.F8E8M0.numpy)
    for kernel in (ms.reference(program), ms.compile(program, trace=ms.Schedule(program).trace)):
        np.testing.assert_array_equal(np.asarray(kernel(given)).view(np.uint8), [0, 9])


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_half_is_rounded_as_its_f32_is(name: str, source: str) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(DType(source).numpy)
    with np.errstate(all="ignore"):
        single = every.astype(np.float32)
    run = executors()["vectors"]
    found = run(program(source, name, every.size), every).view(np.uint8)
    expected = run(program("f32", name, every.size), single).view(np.uint8)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_every_code_becomes_a_half_and_comes_back(name: str, source: str) -> None:
    run = executors()["vectors"]
    wide = run(program(name, source, codes(name).size), codes(name))
    np.testing.assert_array_equal(wide.astype(np.float32), values(name))
    back = values(name)[run(program(source, name, wide.size), wide).view(np.uint8)]
    np.testing.assert_array_equal(back, values(name))


@pytest.mark.parametrize("name", FORMATS)
def test_a_largest_element_starts_below_all_and_keeps_nan(name: str) -> None:
    numbers = values(name)
    given = np.arange(1, 8, dtype=np.uint8) + np.uint8(FORMATS[name].sign)
    rows = np.stack([given, given])
    nans = np.flatnonzero(np.isnan(numbers))
    if nans.size:
        rows[1, 3] = nans[0]
    text = f"program p[T={name}](A: T[2, 7]) -> C: T[2]:\n    C[i] = max[k](A[i, k])\n"
    program = ms.parse_program(text)
    for kernel in (ms.reference(program), ms.compile(program, trace=ms.Schedule(program).trace)):
        found = numbers[np.asarray(kernel(rows.view(DType(name).numpy))).view(np.uint8)]
        assert found[0] == numbers[given[0]]
        assert np.isnan(found[1]) == bool(nans.size)


def test_a_sum_of_small_floats_is_refused() -> None:
    text = "program p(A: f8e4m3fn[4, 4]) -> C: f8e4m3fn[4]:\n    C[i] = sum[k](A[i, k])\n"
    with pytest.raises(ms.LanguageError, match="`sum` over f8e4m3fn would round to f8e4m3fn at every step"):
        ms.parse_program(text)
