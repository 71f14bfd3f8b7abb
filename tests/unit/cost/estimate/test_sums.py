"""The estimate knows which sums lowering keeps in registers."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, FeatureProgram
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.targets import AVX512

PROGRAM = """
program product[N=8, M=400, K=64](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def tile(columns: int, between: int) -> Schedule:
    """Sums of one row over k, of `between` times as many columns: vectors of 16, the last one of what is left."""
    schedule = Schedule(parse_program(PROGRAM))
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    outer, middle, inner = schedule.split(j, [None, between, columns])
    schedule.reorder(i, outer, k, middle, inner)
    schedule.vectorize(inner, lanes=16)
    schedule.annotate(block, "unroll_limit", 64)
    return schedule


@pytest.mark.parametrize(("columns", "between"), [(32, 2), (50, 1), (50, 2), (48, 3), (40, 2)])
def test_sums_are_held_where_lowering_holds_them(columns: int, between: int) -> None:
    schedule = tile(columns, between)
    features = FeatureProgram(schedule.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
    is_held = features[NAMES.index("s0.held")] > 0
    program = lower(schedule.func, AVX512)
    assert is_held == any(array.kind is ArrayKind.REGISTER for array in program.arrays)


def test_both_are_tried() -> None:
    held = {any(a.kind is ArrayKind.REGISTER for a in lower(tile(n, 2).func, AVX512).arrays) for n in (32, 50)}
    assert held == {True, False}
