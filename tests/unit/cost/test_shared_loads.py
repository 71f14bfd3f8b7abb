"""The estimate knows which loads of overlapping windows code generation shares, and which conditions of padding."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from metasched.cost.condition_cycles import gated_reads
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.expectation import stage_views
from metasched.cost.shared_loads import distinct_load_shares, shared_load_shares
from metasched.cost.statement import StatementView
from metasched.lang import parse_program
from metasched.runtime.compiled import compile_func
from metasched.schedule.trace import Schedule
from tests.support.targets import AVX512

WINDOWS = """
program windows[S=1](X: f32[8*S + 2, 8*S + 2, 16], K: f32[3, 3, 16]) -> Y: f32[8, 8, 16]:
    Y[h, w, c] = sum[r, s](X[S*h + r, S*w + s, c] * K[r, s, c])
"""
ROWS_PADDED = """
program padded(X: f32[8, 10, 16], K: f32[3, 3, 16]) -> Y: f32[8, 8, 16]:
    P: f32[10, 10, 16]
    pad: P[h, w, c] = X[h - 1, w, c] if h >= 1 and h < 9 else 0
    Y[h, w, c] = sum[r, s](P[h + r, w + s, c] * K[r, s, c])
"""


def tile(schedule: Schedule, rows: int, columns: int) -> Schedule:
    """All terms of a tile of rows and columns in straight code."""
    block = schedule.get_block("Y")
    h, w, c, r, s = schedule.get_loops(block)
    h, row = schedule.split(h, [None, rows])
    w, column = schedule.split(w, [None, columns])
    schedule.reorder(h, w, r, s, row, column, c)
    schedule.vectorize(c, lanes=16)
    schedule.annotate(block, "unroll_limit", 9 * rows * columns)
    return schedule


def windows(stride: int, rows: int, columns: int) -> Schedule:
    return tile(Schedule(parse_program(WINDOWS, S=stride)), rows, columns)


def view_of(schedule: Schedule) -> StatementView:
    return stage_views(schedule.func, AVX512, replace(DEFAULT_CORE, masked_read=0.0))[-1]


@pytest.mark.parametrize(
    ("stride", "rows", "columns", "loads"), [(1, 4, 2, 24), (1, 4, 4, 72), (1, 8, 2, 96), (2, 4, 1, 36), (2, 4, 2, 60)]
)
def test_windows_share_the_loads_that_code_generation_shares(stride: int, rows: int, columns: int, loads: int) -> None:
    schedule = windows(stride, rows, columns)
    share = float(shared_load_shares(view_of(schedule))[1][0])
    assert share * 9 * rows * columns == pytest.approx(loads)
    weights = 9
    made = len(re.findall(r"= load <16 x float>", compile_func(schedule.func, AVX512).code.llvm))
    assert made == pytest.approx(loads + weights, rel=0.1)


def test_what_is_loaded_again_is_no_other_element() -> None:
    share = float(distinct_load_shares(view_of(windows(1, 8, 2)))[1][0])
    assert share * 9 * 16 == pytest.approx(10 * 4)


def test_sums_in_memory_leave_no_registers_for_what_is_loaded() -> None:
    view = view_of(windows(1, 8, 8))
    assert view.tile.held[0] == 0
    assert shared_load_shares(view)[1][0] == 1.0


def test_a_bound_on_rows_is_asked_once_for_all_columns() -> None:
    def instructions(columns: int) -> float:
        schedule = Schedule(parse_program(ROWS_PADDED))
        schedule.compute_inline(schedule.get_block("pad"))
        view = view_of(tile(schedule, 4, columns))
        return float(gated_reads(view)[0][0] * view.instances[0])

    assert instructions(1) == pytest.approx(instructions(2)) == pytest.approx(instructions(4))
    assert instructions(1) > 0


def test_an_element_that_fills_a_register_takes_none_as_part_of_an_operation() -> None:
    text = """
program image[N=10](X: f32[N, N], K: f32[3, 3, 16]) -> Y: f32[8, 8, 16]:
    Y[h, w, c] = sum[r, s](X[h + r, w + s] * K[r, s, c])
"""
    assert shared_load_shares(view_of(tile(Schedule(parse_program(text)), 4, 2)))[1][0] == 1.0
