"""Every element type through the whole path: both references and machine code, in scalars and in vectors."""

from __future__ import annotations

import itertools
from typing import Any

import numba
import numpy as np
import pytest

import metasched as ms
from metasched.compiler.cpu.emit.native import Native
from metasched.dtypes import DType, integer_range, is_float
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs

Array = np.ndarray[Any, Any]
WIDE = ms.Target.detect(threads=1)
# Nothing but the base instructions: no conversions of f16, vectors of four f32.
NARROW = WIDE.without(f for f in WIDE.features if f.startswith("avx") or f in {"fma", "f16c"})
FLOATS = [d for d in DType if d.is_float]
INTEGERS = [d for d in DType if d.is_integer and not d.is_storage]

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 127.4, 128.0, -128.9, -129.0, 255.5, 256.0, 300.0, 32768.0]
SPECIAL += [65504.0, 65519.0, 65520.0, -65520.0, 1e-7, 6e-8, 2.9e-8, 3e-5, 2147483648.0, -2147483649.0, 9.3e18, -9.3e18]
SPECIAL += [2.0**32 - 256, 2.0**32, 2.0**63 - 2.0**39, 2.0**64 - 2.0**40, 2.0**64, -0.99]
SPECIAL += [1e30, -1e30, np.inf, -np.inf, np.nan, 2.0**-133, 1.00390625, 1.01171875]


def edges(dtype: DType) -> Array:
    """Values at the ends of the type's range, and some in it."""
    rng = np.random.default_rng(0)
    if dtype.is_bool:
        return np.array([True, False, True])
    if dtype.is_integer:
        lowest, highest = integer_range(dtype)
        within = rng.integers(lowest, highest, 14, dtype=dtype.compute.numpy)
        return np.concatenate([np.array([lowest, highest, 0, 1, highest // 2], within.dtype), within]).astype(
            dtype.numpy
        )
    drawn = rng.standard_normal(14) * 10.0 ** rng.uniform(-9, 9, 14)
    with np.errstate(all="ignore"):
        return np.array([*SPECIAL, *drawn]).astype(np.float32).astype(dtype.numpy)


def convert(values: Array, to: DType) -> Array:
    """What a cast means: floats to nearest even by way of f32, or towards zero and into the range; integers wrap."""
    if to.is_integer and is_float(values.dtype):
        ends = integer_range(to)
        numbers = [0.0 if np.isnan(x) else float(x) for x in values.astype(np.float64)]
        return (
            np.array([int(np.clip(x, -1e30, 1e30)) for x in numbers], object)
            .clip(*ends)
            .astype(to.compute.numpy)
            .astype(to.numpy)
        )
    with np.errstate(all="ignore"):
        values = values.astype(to.compute.numpy) if to.is_storage else values
        if to is DType.F4E2M1:  # which has no NaN
            values = np.where(np.isnan(values), np.float32(0), values)
        return values.astype(to.numpy)


def bits(array: Array) -> Array:
    """NaN equals NaN, whatever its payload."""
    if array.dtype.kind in "iub":
        return array
    wide = array.astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide).view(np.int64)


def vector(program: ms.Program, lanes: int) -> ms.Trace:
    schedule = ms.Schedule(program)
    *_, innermost = schedule.get_loops(schedule.get_block("C"))
    schedule.vectorize(innermost, lanes=lanes)
    return schedule.trace


def every_way(program: ms.Program, *arrays: Array) -> dict[str, Array]:
    """The result of each executor."""
    out = {}
    names = [b.name for b in program.inputs]
    for name, execute in (("interpreted", interpret), ("compiled", run_compiled)):
        state = new_state(program.func, dict(zip(names, arrays, strict=True)), {})
        execute(program.func, state)
        (out[name],) = outputs(program.func, state)
    out["scalar"] = ms.compile(program, trace=ms.Schedule(program).trace, target=WIDE)(*arrays)
    out["narrow"] = ms.compile(program, trace=vector(program, 4), target=NARROW)(*arrays)
    out["wide"] = ms.compile(program, trace=vector(program, 16), target=WIDE)(*arrays)
    return out


@pytest.mark.parametrize("source", list(DType), ids=str)
def test_casts_to_every_type(source: DType) -> None:
    values = edges(source)
    targets = [d for d in DType if d is not source]
    results = ", ".join(f"C{n}: {d}[{len(values)}]" for n, d in enumerate(targets))
    stages = "".join(f"    C{n}[i] = {d}(A[i])\n" for n, d in enumerate(targets))
    program = ms.parse_program(f"program casts(A: {source}[{len(values)}]) -> ({results}):\n{stages}")
    schedule = ms.Schedule(program)
    for n in range(len(targets)):
        (loop,) = schedule.get_loops(schedule.get_block(f"C{n}"))
        schedule.vectorize(loop, lanes=8)
    state = new_state(program.func, {"A": values}, {})
    interpret(program.func, state)
    found = {"interpreted": outputs(program.func, state)}
    state = new_state(program.func, {"A": values}, {})
    run_compiled(program.func, state)
    found["compiled"] = outputs(program.func, state)
    found["scalar"] = ms.compile(program, trace=ms.Schedule(program).trace, target=WIDE)(values)
    found["wide"] = ms.compile(program, trace=schedule.trace, target=WIDE)(values)
    found["narrow"] = ms.compile(program, trace=schedule.trace, target=NARROW)(values)
    for (how, arrays), (n, target) in itertools.product(found.items(), enumerate(targets)):
        np.testing.assert_array_equal(bits(arrays[n]), bits(convert(values, target)), f"{source} to {target}, {how}")


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_arithmetic_comparison_and_selection(dtype: DType) -> None:
    """Small numbers, on which every type is exact."""
    a = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], dtype.numpy)
    b = np.array([2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4], dtype.numpy)
    program = ms.parse_program(
        f"program p[T={dtype}](A: T[11], B: T[11]) -> C: T[11]:\n"
        "    C[i] = A[i] * B[i] + 1 if A[i] > B[i] else max(A[i], 2)"
    )
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    expected = np.where(wide_a > wide_b, wide_a * wide_b + 1, np.maximum(wide_a, 2)).astype(dtype.numpy)
    for how, result in every_way(program, a, b).items():
        np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64), how)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_largest_and_smallest_of_a_row(dtype: DType) -> None:
    a = np.random.default_rng(0).integers(0, 100, (5, 13)).astype(dtype.numpy)
    for reducer, expected in (("max", a.max(axis=1)), ("min", a.min(axis=1))):
        program = ms.parse_program(f"program p[T={dtype}](A: T[5, 13]) -> C: T[5]:\n    C[i] = {reducer}[k](A[i, k])")
        np.testing.assert_array_equal(bits(ms.reference(program)(a)), bits(expected))
        schedule = ms.Schedule(program)
        i, k = schedule.get_loops(schedule.get_block("C"))
        schedule.reorder(k, i)
        schedule.vectorize(i, lanes=4)
        np.testing.assert_array_equal(bits(ms.compile(program, trace=schedule.trace)(a)), bits(expected))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_of_integers_wrap(dtype: DType) -> None:
    a = np.full((4, 9), np.iinfo(dtype.numpy).max, dtype.numpy)
    program = ms.parse_program(f"program p[T={dtype}](A: T[4, 9]) -> C: T[4]:\n    C[i] = sum[k](A[i, k])")
    expected = a.sum(axis=1, dtype=dtype.numpy)
    for result in (ms.reference(program)(a), ms.compile(program, trace=ms.Schedule(program).trace)(a)):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [DType.U32, DType.U64], ids=str)
def test_numbers_beyond_the_signed_ones_are_divided_and_compared_as_they_are(dtype: DType) -> None:
    last = np.iinfo(dtype.numpy).max
    a = np.array([last, last - 1, last // 2 + 1, 5, 0, 7, last, 3, last // 2, 1, last], dtype.numpy)
    b = np.array([1, last, 3, last, 0, 0, 2, last // 2 + 1, last // 2 + 2, last, last - 1], dtype.numpy)
    program = ms.parse_program(
        f"program p[T={dtype}](A: T[11], B: T[11]) -> C: T[11]:\n"
        f"    C[i] = (A[i] // B[i] + A[i] % B[i] if A[i] > {last // 2} else min(A[i], B[i])) - {last}"
    )
    divisor = np.where(b == 0, 1, b).astype(dtype.numpy)
    divided = np.where(b == 0, 0, a // divisor + a % divisor).astype(dtype.numpy)
    expected = np.where(a > last // 2, divided, np.minimum(a, b)).astype(dtype.numpy) - dtype.numpy.type(last)
    for how, result in every_way(program, a, b).items():
        np.testing.assert_array_equal(result, expected, how)


def test_conditions_are_kept_in_bytes() -> None:
    a = np.random.default_rng(0).standard_normal(37).astype(np.float32)
    program = ms.parse_program(
        "program p(A: f32[37], M: bool[37]) -> C: bool[37]:\n"
        "    P[i] = A[i] > 0\n    C[i] = P[i] and not M[i] or A[i] < -1"
    )
    mask = np.arange(37) % 3 == 0
    for how, result in every_way(program, a, mask).items():
        np.testing.assert_array_equal(result, ((a > 0) & ~mask) | (a < -1), how)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_halves_round_where_they_are_stored_and_nowhere_else(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100)).astype(dtype.numpy)
    program = ms.parse_program(
        f"program p[T={dtype}](A: T[100], B: T[100]) -> C: T[100]:\n    C[i] = (A[i] * B[i] + A[i]) / 3"
    )
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    expected = ((wide_a * wide_b + wide_a) / np.float32(3)).astype(dtype.numpy)
    for how, result in every_way(program, a, b).items():
        # A fused multiply-add may change the last digit of the f32, which is seldom seen after rounding.
        assert np.count_nonzero(bits(result) != bits(expected)) <= 2, how


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_inlining_keeps_the_rounding_of_what_is_inlined(dtype: DType) -> None:
    a = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    program = ms.parse_program(
        f"program p[T={dtype}](A: f32[64]) -> C: f32[64]:\n    B[i] = T(A[i])\n    C[i] = f32(B[i]) - A[i]"
    )
    schedule = ms.Schedule(program)
    schedule.compute_inline(schedule.get_block("B"))
    expected = a.astype(dtype.numpy).astype(np.float32) - a
    assert expected.any()
    np.testing.assert_array_equal(ms.compile(program, trace=schedule.trace)(a), expected)


def test_a_sum_in_a_wider_type() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((8, 40)).astype(DType.BF16.numpy), rng.standard_normal((40, 16)).astype(DType.BF16.numpy)
    program = ms.parse_program(
        "program p(A: bf16[8, 40], B: bf16[40, 16]) -> C: f32[8, 16]:\n"
        "    C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))"
    )
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for result in (ms.reference(program)(a, b), ms.compile(program)(a, b)):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_halves_in_compiled_callers_are_their_bits(dtype: DType) -> None:
    program = ms.parse_program(f"program p[T={dtype}](A: T[16]) -> C: T[16]:\n    C[i] = A[i] * 2")
    kernel = ms.compile(program)
    a = np.arange(16).astype(dtype.numpy)

    @numba.njit
    def twice(values):  # type: ignore[no-untyped-def]
        return kernel.numba(values)

    result = twice(a.view(np.uint16))
    assert result.dtype == np.uint16
    np.testing.assert_array_equal(result.view(dtype.numpy), kernel(a))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16], ids=str)
def test_another_dtype_is_refused_with_what_to_do(dtype: DType) -> None:
    program = ms.parse_program(f"program p[T={dtype}](A: T[16]) -> C: T[16]:\n    C[i] = A[i] * 2")
    message = rf"`A` has dtype float32; the kernel takes {dtype.numpy.name}\n  hint: .*astype\('{dtype.numpy.name}'\)"
    with pytest.raises(ms.KernelError, match=message):
        ms.compile(program)(np.zeros(16, np.float32))
    assert np.zeros(16, np.float32).astype(dtype.numpy.name).dtype == dtype.numpy


@pytest.mark.parametrize(
    ("features", "expected"),
    [({"f16c", "avx"}, True), ({"f16c"}, False), ({"avx512fp16"}, False), ({"fullfp16"}, True), (set(), False)],
)
def test_instructions_that_convert_f16_need_avx(features: set[str], expected: bool) -> None:
    target = ms.Target("x", frozenset(features), threads=1, l1=32768, l2=1048576, l3=33554432)
    assert Native.from_target(target).converts_f16 is expected


def test_f16c_without_avx_is_compiled() -> None:
    target = WIDE.without(f for f in WIDE.features if f.startswith("avx") or f == "fma")
    program = ms.parse_program("program triple[N=9](A: f16[N]) -> C: f16[N]:\n    C[i] = A[i] * 3\n")
    values = np.arange(9, dtype=np.float16)
    kernel = ms.compile(program, trace=vector(program, 4), target=target)
    assert np.array_equal(kernel(values), values * 3)
