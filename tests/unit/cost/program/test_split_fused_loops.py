"""Fused parallel loops, taken apart: the same elements, and what is used again shows."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.program.split_fused_loops import BlockInSplitLoops, split_fused_loops
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Block, For
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.targets import AVX512

PRODUCT = """
program product[N=48, M=16, K=1000](A: f32[N, K], B: f32[M, K, 32]) -> C: f32[N, M, 32]:
    C[i, o, j] = sum[k](A[i, k] * B[o, k, j])
"""
COPY = "program copy[N=6, M=10, K=4](A: f32[N, M, K]) -> B: f32[N, M, K]:\n    B[i, j, k] = A[i, j, k]\n"


def nest(schedule: Schedule, name: str) -> tuple[Block, tuple[For, ...]]:
    return query.find_block(schedule.func, name), query.loops_above(schedule.func, name)


def places(block: Block, loops: tuple[For, ...]) -> list[list[int]]:
    """The values of each binding, iteration by iteration."""
    grid = np.indices([as_int(loop.extent) or 0 for loop in loops]).reshape(len(loops), -1)
    at = dict(zip((loop.var for loop in loops), grid, strict=True))
    return [np.broadcast_to(found, grid[0].shape).tolist() for found in Evaluator(block.bindings)(at)]


def fused(*tiles: int) -> Schedule:
    """Outer loops of tiles of a copy's three axes, fused and parallel."""
    schedule = Schedule(parse_program(COPY))
    axes = schedule.get_loops(schedule.get_block("B"))
    outer, inner = zip(
        *(schedule.split(axis, [None, tile]) for axis, tile in zip(axes, tiles, strict=True)), strict=True
    )
    schedule.reorder(*outer, *inner)
    schedule.parallel(schedule.fuse(*outer))
    return schedule


@pytest.mark.parametrize(("tiles", "loops"), [((2, 5, 1), 3), ((1, 10, 2), 2), ((6, 1, 4), 1), ((4, 3, 3), 3)])
def test_the_same_elements_in_the_same_order(tiles: tuple[int, ...], loops: int) -> None:
    block, around = nest(fused(*tiles), "B")
    apart = split_fused_loops(block, around)
    assert len(apart.loops) == len(around) + apart.more
    assert apart.more == loops - 1
    assert places(apart.block, apart.loops) == places(block, around)


def test_what_is_inside_stays_there() -> None:
    apart = split_fused_loops(*nest(fused(2, 5, 1), "B"))
    assert [apart.depth_after_split(depth) for depth in (0, 1, 2)] == [0, 3, 4]


def test_a_loop_that_was_not_fused_is_as_it_was() -> None:
    schedule = Schedule(parse_program(COPY))
    schedule.parallel(schedule.get_loops(schedule.get_block("B"))[0])
    block, loops = nest(schedule, "B")
    assert split_fused_loops(block, loops) == BlockInSplitLoops(block, loops)


def l3_cycles(panels: int, order: str) -> float:
    """Of a product in tiles of 8 rows and a panel of columns, whose loops over tiles are fused in an order."""
    schedule = Schedule(parse_program(PRODUCT, M=panels))
    i, panel, j, k = schedule.get_loops(schedule.get_block("C"))
    rows, row = schedule.split(i, [None, 8])
    outer = (rows, panel) if order == "rows first" else (panel, rows)
    schedule.reorder(*outer, k, row, j)
    schedule.parallel(schedule.fuse(*outer))
    schedule.vectorize(j, lanes=16)
    features = FeatureProgram(schedule.func, (), AVX512.with_threads(2))(np.empty((1, 0), np.int64))[0]
    return float(np.exp2(features[NAMES.index("s0.l3_cycles")]) - 1)


def test_what_is_read_again_after_all_else_has_left_the_second_cache() -> None:
    # All of B, 4 MB, is read for every 8 rows; or each panel for all rows, one panel after another.
    assert l3_cycles(32, "rows first") > 3 * l3_cycles(32, "panels first")


def test_a_thread_has_all_that_it_goes_through_again() -> None:
    # B is 1 MB. Where threads divide its panels, each has half of it in its second cache; else each has all.
    assert l3_cycles(8, "panels first") == 0
    assert l3_cycles(8, "rows first") > 0
