"""Code computes what the reference does where index arithmetic is near 64 bits and where data wraps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.lower import lower
from metasched.errors import BuildError, ScheduleError
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.target import Target

TOP = 2**63 - 1
B = TOP // 3
X = np.arange(4, dtype=np.float32)
FAR = np.array([-(2**63), TOP, 2**62, -1])


def agree(text: str, *arguments: object, lanes: int = 0) -> np.ndarray:
    schedule = ms.Schedule(ms.parse_program(text))
    if lanes:
        schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[-1], lanes=lanes)
    found = Kernel(build(schedule.func, Target.detect()))(*arguments)
    np.testing.assert_array_equal(found, ms.reference(schedule.program)(*arguments))
    return found


@pytest.mark.parametrize("lanes", [0, 3, 4])
@pytest.mark.parametrize(
    "value",
    [
        f"X[i*{B}] if i*{B} < 4 and i*{B} >= 0 else 7",
        f"X[i*{B} % 4] + f32(i*{B} // 1000000007)",
        f"X[i] if i*{B} < 0 - i*{B} else 1",
        f"X[i] if 0 - i*{B} > i*{B} - {TOP} else 1",
        f"X[i] if (i*{B} - {TOP - 1}) + i*{B // 2} > 0 - 9 else f32(i32(i*{B}))",
        f"X[max(i*{B} - {2 * B}, 0) % 4] + X[min(i*{B}, 3)]",
        "X[i] + f32(i // 0) + f32(i % (0-3)) + f32(i // max(i - 1, 1))",
    ],
)
def test_index_arithmetic_near_the_limit(value: str, lanes: int) -> None:
    agree(f"program p(X: f32[4]) -> Y: f32[4]:\n  Y[i < 4] = {value} + X[i]*0\n", X, lanes=lanes)


@pytest.mark.parametrize("lanes", [0, 4])
@pytest.mark.parametrize(
    "value",
    [
        "i64(u64(i) - 3)",
        "i64(u64(i) * 12345678901234567890 % 1000) * 3 + 1",
        "i64(u64(i) * 4611686018427387905)",
        "i64(u64(i - 2) // 3) + i64(u32(i) - 5)",
        "i64(max(u64(2 - i), 9) % 7)",
    ],
)
def test_indices_through_types_without_a_sign(value: str, lanes: int) -> None:
    agree(f"program p() -> Y: i64[4]:\n  Y[i < 4] = {value}\n", lanes=lanes)


@pytest.mark.parametrize("lanes", [0, 2, 4, 16])
@pytest.mark.parametrize(
    "value",
    [
        f"1 if -(k + j) <= i*{-(2**62)} else 0",
        f"1 if i*{2**62 - 1} > -2 - k*{2**58} else 0",
        f"1 if -(k + j) == i*{-(2**62)} else 0",
        f"max(i*{-(2**62)}, -k - j)",
    ],
)
def test_what_fits_is_compared_though_its_difference_does_not_fit(value: str, lanes: int) -> None:
    agree(f"program p() -> Y: i64[3, 5, 13]:\n  Y[i < 3, j < 5, k < 13] = {value}\n", lanes=lanes)


@pytest.mark.parametrize("lanes", [0, 2, 4, 16])
@pytest.mark.parametrize("value", [f"(j*{2**60} - k*8) % {TOP}", f"(j*{2**60} - k*8) // {TOP - 5}"])
def test_no_part_of_a_dividend_leaves_64_bits(value: str, lanes: int) -> None:
    # Where `k` is a number of lanes past a number, a remainder that is taken of that alone is near the divisor.
    agree(f"program p() -> Y: i64[5, 13]:\n  Y[j < 5, k < 13] = {value}\n", lanes=lanes)


@pytest.mark.parametrize("lanes", [0, 4])
@pytest.mark.parametrize(
    "value",
    [
        "(I[i]*4) // 4",
        "(I[i]*4 + i) % 4",
        "1 if I[i] + 1 > I[i] else 0",
        "max(I[i] + 1, I[i])",
        "1 if I[i] < i else 0",
        "I[i]*4611686018427387904*4 + I[i]",
        "I[i] // (i - 1) + I[i] % i",
    ],
)
def test_data_wraps(value: str, lanes: int) -> None:
    agree(f"program p(I: i64[4]) -> Y: i64[4]:\n  Y[i] = {value}\n", FAR, lanes=lanes)
    for s in FAR.tolist():
        agree(f"program p(s: i64) -> Y: i64[4]:\n  Y[i] = {value.replace('I[i]', 's')}\n", s, lanes=lanes)


def test_two_scalars_far_apart() -> None:
    text = "program p(a: i64, b: i64) -> Y: i64[4]:\n  Y[i] = 1 if a < b else 0\n"
    assert agree(text, -(2**63) + 5, TOP - 3).tolist() == [1] * 4


@pytest.mark.parametrize("lanes", [0, 4])
@pytest.mark.parametrize(
    "value",
    [
        "X[I[i]*4611686018427387904] if I[i]*4611686018427387904 >= 0 and I[i]*4611686018427387904 < 4 else 9",
        "X[I[i] - 1] if I[i] >= 1 and I[i] <= 4 else 9",
        "X[max(min(I[i]*I[i] + i, 3), 0)]",
        "X[(I[i]*8 + i) // 16 % 4]",
    ],
)
def test_data_that_wraps_as_an_index(value: str, lanes: int) -> None:
    """The index is computed, so that no call checks it."""
    text = "program p(J: i64[4], X: f32[4]) -> Y: f32[4]:\n  I[i] = J[i] + 1\n  Y[i] = {}\n"
    for far in (FAR, FAR - 1, np.arange(4)):
        agree(text.format(value), far, X, lanes=lanes)


def test_a_scalar_as_an_index_compiles_by_itself() -> None:
    program = ms.parse_program(
        "program p(s: i64, X: f32[4]) -> Y: f32[4]:\n  Y[i] = X[i + s] if i + s >= 0 and i + s < 4 else 9\n"
    )
    kernel = ms.compile(program)
    for s in (0, 1, -2, TOP, -(2**63)):
        np.testing.assert_array_equal(kernel(s, X), ms.reference(program)(s, X))


# --- schedules

PLAIN = "program p[N=100, M=7](A: f32[N, M]) -> B: f32[N, M]:\n  B[i, j] = A[i, j] + 1\n"


@pytest.mark.parametrize("factors", [[None, 2**62], [None, 2**40, 2**40], [2**31, 2**30, None]])
def test_a_nest_that_64_bits_do_not_count_is_no_schedule(factors: list[int | None]) -> None:
    schedule = ms.Schedule(ms.parse_program(PLAIN))
    i, _ = schedule.get_loops(schedule.get_block("B"))
    with pytest.raises(ScheduleError, match=r"would run \d+ times"):
        schedule.split(i, factors)


def test_fusing_counts_too() -> None:
    schedule = ms.Schedule(ms.parse_program(PLAIN))
    i, j = schedule.get_loops(schedule.get_block("B"))
    _, _ = schedule.split(i, [None, 2**50])
    with pytest.raises(ScheduleError, match=r"would run \d+ times"):
        schedule.split(j, [None, 2**50])


@pytest.mark.parametrize(
    "line",
    [
        f"x, y = split(i, [None, {2**63}])",
        f't0, t1 ~ sample_tile(i, parts=2, innermost={2**63}) @ "i" := [_, 4]',
        f't0, t1 ~ sample_tile(i, parts=2) @ "i" := [_, {2**63}]',
        f't0, t1 ~ sample_tile(i, parts={2**60}) @ "i" := [_, 4]',
        f't0 ~ sample_categorical([1, {2**63}]) @ "i" := {2**63}',
        f'annotate(i, "unroll_limit", {2**63})',
    ],
)
@pytest.mark.parametrize("policy", list(ms.Policy))
def test_numbers_of_a_trace(line: str, policy: ms.Policy) -> None:
    text = f'trace 1 of p[N=100, M=7]:\n    b = get_block("B")\n    i, j = get_loops(b)\n    {line}\n'
    repaired = policy is ms.Policy.REPAIR and line.endswith(f'parts=2) @ "i" := [_, {2**63}]')
    if repaired:
        assert ms.parse_trace(text).apply_to(ms.parse_program(PLAIN), policy).repairs
        return
    with pytest.raises(ScheduleError):
        ms.parse_trace(text).apply_to(ms.parse_program(PLAIN), policy)


def test_an_imperfect_tile_beyond_the_limit_is_refused_when_built() -> None:
    """What the program computes fits; what the tile computes beside it, before asking whether it is used, does not."""
    schedule = ms.Schedule(
        ms.parse_program(f"program p(X: f32[4]) -> Y: f32[4]:\n  Y[i] = X[i] if i*{B} % 7 < 3 else 0\n")
    )
    schedule.split(schedule.get_loops(schedule.get_block("Y"))[0], [None, 3])
    with pytest.raises(BuildError, match="index arithmetic leaves 64 bits"):
        build(schedule.func, Target.detect())


def test_ordinary_arithmetic_is_known_not_to_wrap() -> None:
    assert not lower(ms.parse_program(PLAIN).func, Target.detect()).wraps
    wide = ms.parse_program(f"program p(X: f32[4]) -> Y: f32[4]:\n  Y[i] = X[i*{B} % 4] + X[i]\n")
    assert lower(wide.func, Target.detect()).wraps


# --- the reference

EACH = "program p(X: i64[5]) -> Y: i64[5, 5, {n}]:\n  Y[i, j, k < {n}] = {value}\n"


@pytest.mark.parametrize(
    ("value", "by_hand"),
    [
        ("min(X[i], -9223372036854775808) + X[j]", lambda x, z: -(2**63) + z),
        ("X[i] * X[j] + k * 0", lambda x, z: x * z),
        ("X[i] - X[j]", lambda x, z: x - z),
        ("-X[i] + 0 * X[j]", lambda x, z: -x),
        ("X[i] // X[j]", lambda x, z: x // z if z else 0),
        ("X[i] % X[j]", lambda x, z: x % z if z else 0),
    ],
)
@pytest.mark.parametrize("n", [1, 4000])
def test_the_reference_wraps_interpreted_and_compiled(value: str, by_hand: Callable[[int, int], int], n: int) -> None:
    """Numba tells LLVM that signed sums do not overflow, and the lowest number over -1 would end the process."""
    x = [-(2**63), TOP, -1, 0, -(2**62)]
    program = ms.parse_program(EACH.format(n=n, value=value))
    found = ms.reference(program)(np.array(x))
    wanted = [[(by_hand(a, b) + 2**63) % 2**64 - 2**63 for b in x] for a in x]
    np.testing.assert_array_equal(found[:, :, -1], np.array(wanted))


def test_a_select_by_data_wraps_in_the_reference() -> None:
    agree(f"program p(I: i64[4]) -> Y: i64[4]:\n  Y[i] = (I[i] if I[i] > 0 else 8) + i*{B}\n", FAR)


def test_a_product_of_loops_is_no_place_to_copy_to() -> None:
    schedule = ms.Schedule(
        ms.parse_program("program p(X: f32[13]) -> Y: f32[4, 5]:\n  Y[i < 4, j < 5] = X[i * (j % 4)] + X[0]\n")
    )
    _, j = schedule.get_loops(schedule.get_block("Y"))
    copy = schedule.cache_read(schedule.get_block("Y"), "X", "local")
    with pytest.raises(ScheduleError, match="a product of loop variables"):
        schedule.compute_at(copy, j)


def test_a_scalar_as_an_index_is_data_to_a_schedule() -> None:
    program = ms.parse_program(
        "program p(s: i64, X: f32[9]) -> Y: f32[8]:\n  T[i] = X[i] * 2\n"
        "  Y[i < 8] = T[i] + (T[s + 2] if s + 2 >= 0 and s + 2 < 9 else 6)\n"
    )
    schedule = ms.Schedule(program)
    (loop,) = schedule.get_loops(schedule.get_block("Y"))
    schedule.compute_at(schedule.get_block("T"), loop)
    kernel = Kernel(build(schedule.func, Target.detect()))
    x = np.arange(9, dtype=np.float32)
    for s in (0, 6, 7, TOP, -(2**63)):
        np.testing.assert_array_equal(kernel(s, x), ms.reference(program)(s, x))
