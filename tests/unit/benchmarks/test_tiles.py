"""The estimate of small nests is near what `python -m benchmarks tiles` measured: cycles of a call, on one core of a
virtual Sapphire Rapids."""

from __future__ import annotations

from pathlib import Path

import pytest

import metasched as ms
from benchmarks.registry import BENCHMARKS
from benchmarks.tiles import elementwise, nests, product, reduction
from metasched.cost.expectation import expectation_of
from tests.support.cross import AVX2, WIDE

TARGET = ms.Target("sapphirerapids", frozenset((*AVX2, *WIDE)), 1, 48 << 10, 2 << 20, 480 << 20)
# The estimate is at most so many times the measurement, and the measurement so many times the estimate.
FACTOR = 1.3


def test_as_many_nests_are_timed_as_is_said() -> None:
    said = f"{len(list(nests()))} small nests"
    page = Path(__file__).parents[3] / "docs" / "cost.md"
    assert said in BENCHMARKS["tiles"].summary
    assert said in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("rows", "width", "depth", "cycles"),
    [
        (1, 16, 64, 891),  # of one sum that waits for itself, more than two tiles are under way
        (4, 16, 64, 1940),
        (1, 16, 256, 5802),
        (8, 32, 64, 4993),
        (14, 32, 256, 35077),
        (1, 7, 64, 779),  # a mask that only loads and stores of sums have
        (8, 3, 64, 2321),
        (4, 15, 64, 1950),
    ],
)
def test_products(rows: int, width: int, depth: int, cycles: float) -> None:
    assert_near(product(rows, width, depth), cycles)


def test_sums_in_memory_take_longer_than_is_said() -> None:
    """34,837 cycles: what copies read in common is counted once, which ranks other sums in memory better."""
    assert 34837 / 2 < expectation_of(product(8, 64, 64).func, TARGET).cycles < 34837


@pytest.mark.parametrize(
    ("reducer", "rows", "depth", "lanes", "cycles"),
    [
        ("max", 16, 1000, 1, 93323),  # a maximum that passes NaN on is three instructions, one after another
        ("max", 64, 64, 1, 16554),
        ("max", 64, 64, 16, 1360),  # its lanes are reduced to one by halves, in every row
        ("max", 32, 256, 16, 1866),
        ("max", 7, 49, 64, 168),
        ("sum", 32, 256, 64, 559),
    ],
)
def test_reductions(reducer: str, rows: int, depth: int, lanes: int, cycles: float) -> None:
    assert_near(reduction(reducer, rows, depth, lanes), cycles)


@pytest.mark.parametrize(
    ("value", "cycles"),
    [
        ("A[i, j] + B[i, j]", 286),
        ("A[i, j] / B[i, j]", 1350),
        ("max(A[i, j], B[i, j])", 342),
        ("exp(A[i, j])", 1218),
        ("log(A[i, j])", 2439),
        ("log1p(A[i, j])", 3390),
        ("tanh(A[i, j])", 2453),
        ("sqrt(A[i, j])", 1612),
        ("rsqrt(A[i, j])", 2962),
    ],
)
def test_functions(value: str, cycles: float) -> None:
    assert_near(elementwise(value), cycles)


def assert_near(schedule: ms.Schedule, cycles: float) -> None:
    assert cycles / FACTOR < expectation_of(schedule.func, TARGET).cycles < cycles * FACTOR


def test_a_division_that_inner_loops_do_not_move_is_done_before_them() -> None:
    """A vector takes 4.1 cycles where a row of 512 elements shares a root, measured, and 23 where each has its own."""
    program = (
        "program f[M=16, N=512](A: f32[M, N], S: f32[{0}]) -> C: f32[M, N]:\n    C[i, j] = A[i, j] * rsqrt(S[{1}])\n"
    )
    cycles = []
    for given in (("M", "i"), ("N", "j")):
        schedule = ms.Schedule(ms.parse_program(program.format(*given)))
        schedule.vectorize(schedule.get_loops(schedule.get_block("C"))[1], lanes=16)
        cycles.append(expectation_of(schedule.func, TARGET).cycles)
    assert 4 * cycles[0] < cycles[1]
