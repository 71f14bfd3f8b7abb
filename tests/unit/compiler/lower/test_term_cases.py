"""Parts of register tiles that have a term are cases of their own, asked before the loop over further terms."""

from __future__ import annotations

import re

import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.schedule.trace import Schedule
from tests.support.agreement import check_kernel
from tests.support.targets import AVX512

WINDOW = """program window[W=12, R=3, C=8, O=16](X: f32[W, C], K: f32[R, C, O]) -> Y: f32[W, O]:
    Y[w, o] = sum[r < R, c < C if w + r >= 1 and w + r < W + 1](X[w + r - 1, c] * K[r, c, o])"""
PLANE = """program plane[H=9, W=10, R=3, C=8, O=16](X: f32[H, W, C], K: f32[R, R, C, O]) -> Y: f32[H, W, O]:
    Y[h, w, o] = sum[r < R, s < R, c < C if h + r >= 1 and h + r < H + 1 and w + s >= 1 and w + s < W + 1](
        X[h + r - 1, w + s - 1, c] * K[r, s, c, o])"""
UPDATE = re.compile(r"Y\.acc\w*\[.*\] = Y\.acc")


def tiled(text: str, tile: int, **params: int) -> Schedule:
    """Columns in tiles, terms of the window around those of the channels around the tile."""
    sch = ms.Schedule(ms.parse_program(text, **params))
    w, o, r, c = sch.get_loops(sch.get_block("Y"))
    w0, w1 = sch.split(w, [None, tile])
    sch.reorder(w0, r, c, w1, o)
    sch.unroll(w1)
    sch.vectorize(o, lanes=16)
    return sch


def code(sch: Schedule) -> list[str]:
    check_kernel(ms.compile(sch.program, trace=sch.trace), sch.program)
    return [line.strip() for line in print_kernel(lower(sch.func, AVX512)).splitlines()]


def test_what_a_tile_has_is_asked_before_the_loop_over_channels() -> None:
    lines = code(tiled(WINDOW, 4))
    loops = [n for n, line in enumerate(lines) if line == "for c in range(8):"]
    assert len(loops) == 3  # the whole tile, all but the first column, all but the last
    for start, end in zip(loops, [*loops[1:], len(lines)], strict=True):
        update = next(n for n in range(start, end) if UPDATE.match(lines[n]))
        asked = [line for line in lines[start:update] if line.startswith("if ")]
        assert all(set(re.findall(r"[a-z]\w*", line)) <= {"if", "w_1"} for line in asked)


def test_a_tile_without_the_term_is_left_out() -> None:
    """With windows of 7 and tiles of 2 some taps of the first and last tiles read padding only."""
    text = WINDOW.replace("- 1, c]", "- 3, c]").replace(">= 1", ">= 3").replace("W + 1", "W + 3")
    lines = code(tiled(text, 2, R=7))
    assert "if w_0*2 + r + 1 >= 3:" in lines


@pytest.mark.parametrize("order", ["bounds", "turned"])
def test_either_way_of_writing_a_bound(order: str) -> None:
    turned = WINDOW.replace("w + r >= 1 and w + r < W + 1", "1 <= w + r and W >= w + r")
    lines = code(tiled(WINDOW if order == "bounds" else turned, 4))
    assert lines.count("for c in range(8):") == 3


def test_columns_may_run_backwards() -> None:
    text = """program back[W=12, R=3, C=8, O=16](X: f32[W, C], K: f32[R, C, O]) -> Y: f32[W, O]:
    Y[w, o] = sum[r < R, c < C if W - w + r >= 2 and W - w + r < W + 2](X[W - w + r - 2, c] * K[r, c, o])"""
    assert code(tiled(text, 4)).count("for c in range(8):") == 3


def test_of_many_parts_the_whole_is_a_case_and_elements_are_asked_in_the_others() -> None:
    sch = ms.Schedule(ms.parse_program(PLANE))
    h, w, o, r, s, c = sch.get_loops(sch.get_block("Y"))
    h0, h1 = sch.split(h, [None, 3])
    w0, w1 = sch.split(w, [None, 5])
    sch.reorder(h0, w0, r, s, c, h1, w1, o)
    for loop in (h1, w1):
        sch.unroll(loop)
    sch.vectorize(o, lanes=16)
    lines = code(sch)
    assert lines.count("for c in range(8):") == 2
    assert any(" or " in line for line in lines)


def test_what_unrolled_loops_decide_is_left_to_emission() -> None:
    """All columns and taps are unrolled: each copy knows whether it is there."""
    sch = ms.Schedule(ms.parse_program(WINDOW))
    w, o, r, c = sch.get_loops(sch.get_block("Y"))
    sch.reorder(r, c, w, o)
    for loop in (r, w):
        sch.unroll(loop)
    sch.vectorize(o, lanes=16)
    assert code(sch).count("for c in range(8):") == 1


def test_conditions_that_the_loop_over_terms_changes_stay() -> None:
    text = WINDOW.replace("w + r >= 1 and w + r < W + 1", "w + c < 14 - r").replace("w + r - 1", "w")
    assert code(tiled(text, 4)).count("for c in range(8):") == 1


def test_cases_of_much_code_are_left_out() -> None:
    """Of 8 terms of 4 columns in 16 vectors 512 statements are made: two cases of them, and no three."""
    sch = ms.Schedule(ms.parse_program(WINDOW, O=256))
    w, o, r, c = sch.get_loops(sch.get_block("Y"))
    w0, w1 = sch.split(w, [None, 4])
    sch.reorder(w0, r, c, w1, o)
    sch.vectorize(o, lanes=16)
    for loop in (c, w1):
        sch.unroll(loop)
    sch.annotate(sch.get_block("Y"), "unroll_limit", 512)
    lines = code(sch)
    assert any(" or " in line for line in lines)
