"""Integers of 4 and 2 bits: every byte, wrapping, and the ends of their ranges, in both references and machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType, integer_range
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs

Array = np.ndarray[Any, Any]
SMALL = [d for d in DType if d.is_integer and d.is_storage]


def of_bytes(dtype: DType, array: Array) -> Array:
    """The numbers in the lowest bits of bytes."""
    lowest = array.astype(np.int64) % 2**dtype.digits
    return lowest if dtype.is_unsigned else (lowest ^ (1 << (dtype.digits - 1))) - (1 << (dtype.digits - 1))


def wrapped(dtype: DType, numbers: Array) -> Array:
    """The byte of each number."""
    return (numbers.astype(np.int64) % 2**dtype.digits).astype(np.uint8)


def every_way(text: str, *arrays: Array) -> dict[str, Array]:
    program = ms.parse_program(text)
    out = {}
    for name, execute in (("interpreted", interpret), ("compiled", run_compiled)):
        state = new_state(program.func, dict(zip((b.name for b in program.inputs), arrays, strict=True)), {})
        execute(program.func, state)
        (out[name],) = outputs(program.func, state)
    out["scalar"] = ms.compile(program, trace=ms.Schedule(program).trace)(*arrays)
    schedule = ms.Schedule(program)
    schedule.vectorize(schedule.get_loops(schedule.get_block("C"))[0], lanes=16)
    out["vectors"] = ms.compile(program, trace=schedule.trace)(*arrays)
    return out


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_of_every_byte_the_lowest_bits_are_the_number(dtype: DType) -> None:
    given = np.arange(256, dtype=np.uint8)
    text = f"program p(A: {dtype}[256]) -> C: i32[256]:\n    C[i] = i32(A[i])\n"
    for how, found in every_way(text, given.view(dtype.numpy)).items():
        np.testing.assert_array_equal(found, of_bytes(dtype, given), how)


@pytest.mark.parametrize("source", ["i8", "i16", "i32", "i64", "u8", "u32"])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_integers_wrap_and_leave_the_upper_bits_zero(dtype: DType, source: str) -> None:
    kind = DType(source).numpy
    limits = np.iinfo(kind)
    given = np.arange(max(limits.min, -300), min(limits.max, 300) + 1).astype(kind)
    text = f"program p(A: {source}[{given.size}]) -> C: {dtype}[{given.size}]:\n    C[i] = {dtype}(A[i])\n"
    for how, found in every_way(text, given).items():
        assert found.dtype == dtype.numpy
        np.testing.assert_array_equal(found.view(np.uint8) % 2**dtype.digits, wrapped(dtype, given), how)
        if how in ("scalar", "vectors"):
            np.testing.assert_array_equal(found.view(np.uint8), wrapped(dtype, given), how)


@pytest.mark.parametrize("source", ["f32", "f64", "f16"])
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_floats_go_towards_zero_and_to_the_ends_of_the_range(dtype: DType, source: str) -> None:
    lowest, highest = integer_range(dtype)
    numbers = [0.0, 0.9, -0.9, 1.5, -1.5, lowest, highest, lowest - 0.5, highest + 0.5, 100, -100, np.inf, -np.inf]
    given = np.array([*numbers, np.nan, 6e4], DType(source).numpy)
    expected = [min(max(int(np.clip(x, -1e9, 1e9)), lowest), highest) for x in np.nan_to_num(given.astype(np.float64))]
    text = f"program p(A: {source}[{given.size}]) -> C: {dtype}[{given.size}]:\n    C[i] = {dtype}(A[i])\n"
    for how, found in every_way(text, given).items():
        np.testing.assert_array_equal(found.astype(np.int64), expected, how)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_a_stage_is_computed_in_bytes_and_wraps_once(dtype: DType) -> None:
    a, b = np.meshgrid(np.arange(2**dtype.digits, dtype=np.uint8), np.arange(2**dtype.digits, dtype=np.uint8))
    a, b = a.reshape(-1), b.reshape(-1)
    text = (
        f"program p[T={dtype}](A: T[{a.size}], B: T[{a.size}]) -> C: T[{a.size}]:\n"
        "    C[i] = A[i] * B[i] + 1 if A[i] > B[i] else max(A[i], B[i]) - A[i]\n"
    )
    x, y = of_bytes(dtype, a), of_bytes(dtype, b)
    expected = of_bytes(dtype, wrapped(dtype, np.where(x > y, x * y + 1, np.maximum(x, y) - x)))
    for how, found in every_way(text, a.view(dtype.numpy), b.view(dtype.numpy)).items():
        np.testing.assert_array_equal(found.astype(np.int64), expected, how)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_extrema_and_sums_of_a_row(dtype: DType) -> None:
    a = np.random.default_rng(0).integers(0, 2**dtype.digits, (6, 21)).astype(np.uint8)
    numbers = of_bytes(dtype, a)
    for text, expected in (
        ("max[k](A[i, k])", numbers.max(1)),
        ("min[k](A[i, k])", numbers.min(1)),
        ("sum[k](i32(A[i, k]))", numbers.sum(1)),
    ):
        kind = "i32" if "sum" in text else dtype
        whole = f"program p(A: {dtype}[6, 21]) -> C: {kind}[6]:\n    C[i] = {text}\n"
        for how, found in every_way(whole, a.view(dtype.numpy)).items():
            np.testing.assert_array_equal(found.astype(np.int64), expected, how)


def test_numbers_are_indices() -> None:
    table, at = np.arange(16, dtype=np.float32) * 2, np.array([3, 15, 0, 7], np.uint8)
    text = "program p(A: f32[16], B: u4[4]) -> C: f32[4]:\n    C[i] = A[B[i]]\n"
    for how, found in every_way(text, table, at.view(DType.U4.numpy)).items():
        np.testing.assert_array_equal(found, table[at], how)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program p(A: u4[4, 4]) -> C: u4[4]:\n    C[i] = sum[k](A[i, k])", r"(?s)`sum` over u4.*`sum\[k\]\(i32\(A"),
        ("program p(A: i4[4]) -> C: i4[4]:\n    C[i] = A[i] + 8", "8 does not fit in i4, which goes from -8 to 7"),
        ("program p(A: i4[4], s: i4) -> C: i4[4]:\n    C[i] = A[i] * s", "(?s)a type of storage.*write `s: i8`"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ms.LanguageError, match=message):
        ms.parse_program(text)


@pytest.mark.parametrize(("written", "meant"), [("u4(20)", 4), ("i4(9)", -7), ("u2(3)", 3)])
def test_constants_wrap(written: str, meant: int) -> None:
    dtype = written.partition("(")[0]
    text = f"program p(A: i32[4]) -> C: i32[4]:\n    C[i] = A[i] * 0 + i32({written})\n"
    for how, found in every_way(text, np.arange(4, dtype=np.int32)).items():
        np.testing.assert_array_equal(found, [meant] * 4, f"{dtype}, {how}")
