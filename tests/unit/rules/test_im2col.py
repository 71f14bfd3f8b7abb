"""Convolutions with short rows become products of matrices, where a search may choose so."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.operators import load
from tests.support.rulework import TARGET, apply, correct, reasons, rule

CHANNELS = """
program channels[H=7, C=3, O=4, R=3](X: f32[2, C, H, H], const K: f32[O, C, R, R]) -> Y: f32[2, O, P, P]:
    let P = H - R + 1
    conv: Y[n, o, h < P, w < P] = sum[c, r, s](X[n, c, h + r, w + s] * K[o, c, r, s])
"""
BIASED = """
program biased[H=5, C=4, O=6](X: f32[C, H, H, H], const K: f32[O, C, 2, 2, 2], const b: f32[O]) -> Y: f32[O, P, P, P]:
    let P = H - 1
    conv: V[o, d < P, h < P, w < P] = sum[c, q, r, s](X[c, d + q, h + r, w + s] * K[o, c, q, r, s])
    bias: Y[o, d, h, w] = max(V[o, d, h, w] + b[o], 0)
"""
POINTS = """
program points[H=7, C=5, O=4](X: f32[C, H, H], const K: f32[O, C]) -> Y: f32[O, H, H]:
    conv: Y[o, h, w] = sum[c](X[c, h, w] * K[o, c])
"""
LAST = """
program last[H=7, C=3, O=64](X: f32[H, H, C], const K: f32[3, 3, C, O]) -> Y: f32[H - 2, H - 2, O]:
    conv: Y[h < H - 2, w < H - 2, o] = sum[r, s, c](X[h + r, w + s, c] * K[r, s, c, o])
"""
LINE = """
program line[L=9, C=3, O=4](X: f32[C, L], const K: f32[O, C, 3]) -> Y: f32[O, L - 2]:
    conv: Y[o, l < L - 2] = sum[c, r](X[c, l + r] * K[o, c, r])
"""


def form(chosen: str, text: str, **params: int) -> ms.Sketch:
    space = ms.space(ms.parse_program(text, **params), rules=[rule("im2col")(terms=4)], target=TARGET)
    return next(s for s in space if s.structure["im2col(conv)/form"] == chosen)


def test_windows_are_unfolded_to_the_rows_of_a_matrix() -> None:
    text = str(form("matrix", CHANNELS))
    assert "temp X_reindex: f32[2, 5, 5, 3, 3, 3]  layout n, h, w, c, r, s -> n, c, r, s, h, w" in text
    column = "c_r_s // 9, c_r_s // 3 % 3, c_r_s % 3"
    assert f"Y_reindex[n, o, h_w] += X_reindex[n, h_w // 5, h_w % 5, {column}] * K[o, {column}]" in text
    assert "reindex" not in str(form("direct", CHANNELS))


def test_pixels_in_a_row_are_not_copied() -> None:
    text = str(form("matrix", POINTS))
    assert "X_reindex" not in text
    assert "conv: Y_reindex[o, h_w] += X[c, h_w // 7, h_w % 7] * K[o, c]" in text
    assert "X_reindex" not in str(form("matrix", CHANNELS, R=1, C=30))


def test_a_padding_of_nothing_is_no_copy() -> None:
    program = load("conv2d_nchw", H=7, W=7, CI=64, CO=8, R=1, P=0)
    space = ms.space(program, rules=["inline", "im2col", "multi_level_tiling", "packing"], target=TARGET)
    matrix = next(s for s in space if s.structure["im2col(conv)/form"] == "matrix")
    assert "Xp" not in str(matrix)
    options = {how for s in space for name, how in s.structure.items() if name.endswith("/packed")}
    assert "X in tiles" in options  # direct
    assert all("X in tiles" not in s.structure.values() for s in space if "matrix" in s.structure.values())


def test_what_computes_pixels_in_a_row_stays_where_it_is() -> None:
    text = POINTS.replace("conv: Y", "E[c, h, w] = exp(X[c, h, w])\n    conv: Y").replace("sum[c](X", "sum[c](E")
    _, outcomes = apply(text, rule("im2col")(terms=4), "compute_location")
    found = {o.reason for o in outcomes if o.block == "E" and o.rule == "compute_location"}
    assert found == {"it was placed when it was made"}


def test_what_reads_the_result_is_adapted() -> None:
    text = str(form("matrix", BIASED))
    assert "V_reindex" not in text
    assert "bias: Y[o, d, h, w] = max(V[o, d*16 + h*4 + w] + b[o], 0.0)" in text


@pytest.mark.parametrize("text", [CHANNELS, BIASED, POINTS])
def test_results_are_the_same(text: str) -> None:
    rules = [rule("im2col")(terms=4), rule("multi_level_tiling")(fuse_after=(1,)), "packing,compute_location,vectorize"]
    space = ms.space(ms.parse_program(text), rules=rules, target=TARGET)
    matrices = [s for s in space if s.structure["im2col(conv)/form"] == "matrix"]
    assert matrices
    for sketch in matrices:
        rows = sketch.sample(np.random.default_rng(0), 2)
        correct(sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(space.program))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LAST, "its rows (64 elements) fill vectors"),
        (LAST.replace("O=64", "O=6"), "its rows are no parts of a longer one"),
        (LINE, "its rows are no parts of a longer one"),
        (CHANNELS.replace("C=3", "C=1"), "its reduction is so short that unfolding would take longer"),
        (CHANNELS.replace("H=7", "H=34"), "its rows (32 elements) fill vectors"),
    ],
)
def test_why_not(text: str, reason: str) -> None:
    assert reasons(text, rule("im2col")(terms=10)) == {"conv": reason}


def test_what_is_tiled_stays() -> None:
    _, outcomes = apply(CHANNELS, "multi_level_tiling", rule("im2col")(terms=4))
    assert outcomes[-1].reason == "it is scheduled already"
