"""Sums in lanes along their terms, where operands lie along the terms."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.cost.expectation import expectation_of
from metasched.dtypes import DType
from tests.support.cross import AVX2, WIDE
from tests.support.rulework import TARGET, correct, reasons, rule

NAME = "dot_products"
TIMES_VECTOR = """
program gemv[N=21, K=40](A: f32[N, K], x: f32[K]) -> y: f32[N]:
    sums: y[i] = sum[k](A[i, k] * x[k])
"""
ROWS = """
program rows[M=5, N=13, K=37](A: f32[M, K], B: f32[N, K], b: f32[N]) -> Y: f32[M, N]:
    sums: S[i, j] = sum[k](A[i, k] * B[j, k])
    bias: Y[i, j] = max(S[i, j] + b[j], 0)
"""
SCORES = """
program scores[H=3, M=2, N=9, K=24](Q: f32[H, M, K], K_: f32[H, N, K]) -> S: f32[H, M, N]:
    sums: S[h, i, j] = sum[k](Q[h, i, k] * K_[h, j, k])
"""
WINDOWS = """
program windows[W=9, C=16, O=6](X: f32[W, C], F: f32[O, 3, C]) -> Y: f32[W - 2, O]:
    sums: Y[w < W - 2, o] = sum[r, c](X[w + r, c] * F[o, r, c])
"""
DISTANCES = """
program distances[N=7, M=6, K=20](A: f32[N, K], B: f32[M, K]) -> D: f32[N, M]:
    sums: D[i, j] = sum[k]((A[i, k] - B[j, k]) * (A[i, k] - B[j, k]))
"""
ALL = {"times a vector": TIMES_VECTOR, "rows": ROWS, "scores": SCORES, "windows": WINDOWS, "distances": DISTANCES}
AVX512 = ms.Target("any", frozenset((*AVX2, *WIDE)), 2, 48 << 10, 2 << 20, 100 << 20)
NARROW = ms.Target("any", frozenset(AVX2), 2, 32 << 10, 512 << 10, 32 << 20)
EACH_TARGET = pytest.mark.parametrize("target", [AVX512, NARROW], ids=["AVX-512", "AVX2"])


def in_lanes(text: str, **params: int) -> ms.Sketch:
    space = ms.space(ms.parse_program(text, **params), rules=[rule(NAME)], target=TARGET)
    return next(s for s in space if s.structure[f"{NAME}(sums)/sums"] == "in lanes")


@pytest.mark.parametrize("text", ALL.values(), ids=ALL)
def test_terms_are_in_lanes_below_a_tile_of_results(text: str) -> None:
    sketch = in_lanes(text)
    rng = np.random.default_rng(0)
    for row in sketch.sample(rng, 3):
        sch = sketch.trace_of(row).apply_to(ms.parse_program(text))
        info = sch.describe(sch.get_block("sums"))
        assert info.kinds[-1] is ms.LoopKind.VECTORIZED
        assert {it.name for it in info.iter_of(info.loops[-1])} == {info.reduction[-1].name}
        tile = [it.reduces for loop in info.loops[-1 - len(info.spatial) : -1] for it in info.iter_of(loop)]
        assert tile == [False] * len(info.spatial)
        correct(sch)


def test_what_follows_element_by_element_is_computed_from_each_tile() -> None:
    sketch = in_lanes(ROWS)
    sch = sketch.trace_of(sketch.sample(np.random.default_rng(0), 1)[0]).apply_to(ms.parse_program(ROWS))
    sums, bias = (sch.describe(sch.get_block(name)).loops for name in ("sums", "bias"))
    assert bias[:2] == sums[:2] == ("j_0", "i_0")  # B is more than A, and read once


def test_widths_are_whole_vectors() -> None:
    space = ms.space(ms.parse_program(TIMES_VECTOR), rules=[rule(NAME)], target=AVX512)
    widths = [s.trace for s in space if s.structure[f"{NAME}(sums)/sums"] == "in lanes"]
    assert "sample_categorical([16, 32, 64])" in str(widths[0])


@EACH_TARGET
@pytest.mark.parametrize("rows", [1, 4])
def test_the_guess_takes_it_for_few_rows(target: ms.Target, rows: int) -> None:
    trace = ms.guess(ms.parse_program(ROWS, M=rows, N=1000, K=1000), target=target)
    assert trace.decisions[f"{NAME}(sums)/sums"] == "in lanes"


@EACH_TARGET
def test_the_guess_for_a_matrix_times_a_vector(target: ms.Target) -> None:
    trace = ms.guess(ms.parse_program(TIMES_VECTOR, N=2000, K=1000), target=target)
    assert trace.decisions[f"{NAME}(sums)/sums"] == "in lanes"


@EACH_TARGET
def test_the_guess_for_scores_of_one_token(target: ms.Target) -> None:
    trace = ms.guess(ms.parse_program(SCORES, H=12, M=1, N=512, K=64), target=target)
    assert trace.decisions[f"{NAME}(sums)/sums"] == "in lanes"


@EACH_TARGET
def test_the_estimate_knows_the_registers_that_lanes_of_sums_take(target: ms.Target) -> None:
    """Eight rows of 64 lanes are more than there are registers."""

    def cycles(rows: int, lanes: int) -> float:
        sch = ms.Schedule(ms.parse_program(TIMES_VECTOR, N=8, K=512))
        block = sch.get_block("sums")
        i, k = sch.get_loops(block)
        i_0, i_1 = sch.split(i, [None, rows])
        k_0, k_1 = sch.split(k, [None, lanes])
        sch.reorder(i_0, k_0, i_1, k_1)
        sch.vectorize(k_1, lanes=lanes)
        sch.annotate(block, "unroll_limit", 64)
        return expectation_of(sch.func, target).cycles

    width = target.lanes(DType.F32)
    assert cycles(8, width) < 0.7 * cycles(8, 64)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("program p(A: f32[9]) -> B: f32[9]:\n    x: B[i] = A[i]\n", "it is not a reduction"),
        (
            "program p(A: f32[9, 32], B: f32[32, 9]) -> C: f32[9, 9]:\n    x: C[i, j] = sum[k](A[i, k] * B[k, j])\n",
            "its reduction runs across rows of what it reads",
        ),
        (
            "program p(A: f32[9, 32]) -> C: f32[9]:\n    x: C[i] = sum[k](A[i, k])\n",
            "it reads every element once for each result, so tiles reuse nothing",
        ),
        (
            "program p(A: f32[9, 8], B: f32[9, 8]) -> C: f32[9, 9]:\n    x: C[i, j] = sum[k](A[i, k] * B[j, k])\n",
            "its rows are so short (8 terms) that folding lanes would take longer",
        ),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, NAME) == {"x": reason}
