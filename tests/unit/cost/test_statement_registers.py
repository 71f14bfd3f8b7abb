"""What fits into registers, as lowering sees it: whole tiles, values with their positions, lanes of a reduction."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.lower import lower
from metasched.cost.condition_cycles import gated_reads
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.expected import expected, stage_views
from metasched.cost.statement import View
from tests.support.targets import AVX2, AVX512

LARGEST = """
program largest[M=4, N=256](X: f32[M, N]) -> (V: f32[M], P: i64[M]):
    V[i], P[i] = argmax[j](X[i, j])
"""
LARGEST_OF_COLUMNS = """
program largest[M=256, N=64](X: f32[M, N]) -> (V: f32[N], P: i64[N]):
    V[j], P[j] = argmax[i](X[i, j])
"""
ROWS = """
program rows[N=4, W=29](X: f32[N, W + 2], K: f32[3]) -> Y: f32[N, W]:
    Y[n, w] = sum[s](X[n, w + s] * K[s])
"""
GROUPS = """
program groups[O=24, W=64, C=8](X: f32[O // 4, C, W], K: f32[O, C]) -> Y: f32[O, W]:
    Y[o, w] = sum[c](X[o // 4, c, w] * K[o, c])
"""
RUNNING = """
program running[M=8, N=96](X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j < N] = sum[k](X[i, k] if k <= j else 0.0)
"""


def view_of(sch: ms.Schedule, target: ms.Target) -> View:
    """The heaviest statement; whether its sums are in registers is what lowering says."""
    view = max(stage_views(sch.func, target), key=lambda view: float(view.iterations[0]))
    assert bool(view.tile.held[0]) == (lower(sch.func, target).warnings == ())
    return view


def in_lanes(lanes: int) -> ms.Schedule:
    sch = ms.Schedule(ms.parse_program(LARGEST))
    sch.vectorize(sch.get_loops(sch.get_block("V"))[-1], lanes=lanes)
    return sch


@pytest.mark.parametrize(("target", "lanes", "held"), [(AVX2, 32, 1), (AVX2, 64, 0), (AVX512, 64, 1)])
def test_positions_take_as_many_registers_as_values(target: ms.Target, lanes: int, held: int) -> None:
    assert view_of(in_lanes(lanes), target).tile.held[0] == held


def test_positions_in_memory_are_stored_under_masks() -> None:
    """That is slow where the CPU has no registers for masks."""
    few, many = (expected(in_lanes(lanes).func, AVX2).cycles for lanes in (16, 64))
    assert many > 2 * few
    few, many = (expected(in_lanes(lanes).func, AVX512).cycles for lanes in (16, 64))
    assert many < few


@pytest.mark.parametrize(("columns", "held"), [(56, 1), (64, 0)])
def test_positions_of_columns_do_as_well(columns: int, held: int) -> None:
    sch = ms.Schedule(ms.parse_program(LARGEST_OF_COLUMNS))
    block = sch.get_block("V")
    j, i = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, columns])
    sch.reorder(j0, i, j1)
    sch.vectorize(j1, lanes=8)
    sch.annotate(block, "unroll_limit", 16)
    assert stage_views(sch.func, AVX2)[0].tile.held[0] == held


@pytest.mark.parametrize(("rows", "held"), [(3, 1), (4, 0)])
def test_a_row_that_ends_in_a_tile_takes_all_of_its_registers(rows: int, held: int) -> None:
    """Of 29 pixels, four vectors: four rows take 16 registers, not 14.5."""
    sch = ms.Schedule(ms.parse_program(ROWS, N=rows))
    block = sch.get_block("Y")
    n, w, s = sch.get_loops(block)
    w0, w1 = sch.split(w, [4, 8])
    sch.reorder(s, n, w0, w1)
    sch.vectorize(w1, lanes=8)
    sch.annotate(block, "unroll_limit", 64)
    assert view_of(sch, AVX2).tile.held[0] == held


@pytest.mark.parametrize(("tile", "loads"), [(2, 1), (3, 3), (4, 1), (6, 6), (8, 2)])
def test_outputs_of_one_group_share_loads_where_the_code_knows_it(tile: int, loads: int) -> None:
    """Three outputs begin anywhere in a group of four: each has an address of its own."""
    sch = ms.Schedule(ms.parse_program(GROUPS))
    block = sch.get_block("Y")
    o, w, c = sch.get_loops(block)
    o0, o1 = sch.split(o, [None, tile])
    w0, w1 = sch.split(w, [None, 8])
    sch.reorder(o0, w0, c, o1, w1)
    sch.vectorize(w1, lanes=8)
    sch.annotate(block, "unroll_limit", 64)
    view = view_of(sch, AVX2)
    read = next(n for n in view.reads() if view.statement.accesses[n].buffer == "X")
    np.testing.assert_array_equal(view.tile.vectors[read], [loads])


def test_a_condition_of_lanes_is_a_mask_for_each_vector() -> None:
    """An element that all vectors of a tile add is read once, and masked for each of them; rows share the masks."""

    def instructions(rows: int, vectors: int) -> float:
        sch = ms.Schedule(ms.parse_program(RUNNING))
        block = sch.get_block("Y")
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, rows])
        j0, j1 = sch.split(j, [None, 8 * vectors])
        sch.reorder(i0, j0, k, i1, j1)
        sch.vectorize(j1, lanes=8)
        sch.annotate(block, "unroll_limit", 64)
        return float(gated_reads(view_of(sch, AVX2))[0][0])

    reads, masks = DEFAULT_CORE.redirected_read, DEFAULT_CORE.lane_mask
    assert instructions(1, 6) == pytest.approx(reads / 6 + masks)
    assert instructions(4, 3) == pytest.approx(4 * reads / 12 + masks / 4)
