"""The rule that splits strided reductions by their stride."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from tests.support.rulework import correct, reasons, rule

UPSAMPLED = """
program upsampled[N=5, M=20, R=4](X: f32[N + 4, 8], K: f32[R, 8, M]) -> Y: f32[2 * N, M]:
    conv: Y[i, o] = sum[r, c if (i + r) % 2 == 0](X[(i + r) // 2, c] * K[r, c, o])
"""
SMALL = {
    "conv1d_transpose_nlc": {"L": 5, "CI": 6, "CO": 20, "R": 4, "S": 2, "P": 1},
    "conv2d_transpose_nhwc": {"H": 3, "W": 4, "CI": 5, "CO": 18, "R": 3, "S": 2, "P": 1},
    "conv2d_transpose_nchw": {"H": 3, "W": 4, "CI": 5, "CO": 6, "R": 3, "S": 3, "P": 0},
    "conv3d_transpose_ndhwc": {"Z": 2, "H": 2, "W": 3, "CI": 4, "CO": 9, "R": 2, "S": 2, "P": 0},
}


def split(program: ms.Program, *more: str) -> list[ms.Schedule]:
    """A draw from each sketch whose loops are split."""
    rng = np.random.default_rng(0)
    space = ms.space(program, rules=[rule("parities"), *map(rule, more)])
    sketches = [s for s in space if s.structure["parities(conv)/parities"] == "split"]
    assert 0 < len(sketches) < len(space)
    drawn = []
    for sketch in sketches:
        rows = sketch.repair(sketch.sample(rng, 8))
        row = rows[sketch.mask(rows)][0]
        drawn.append(sketch.trace_of(row).apply_to(program))
    return drawn


@pytest.mark.parametrize("extent", [3, 4, 5])
def test_digits_are_unrolled_and_decide_the_condition(extent: int) -> None:
    (sch,) = split(ms.parse_program(UPSAMPLED, N=extent))
    block = sch.describe(sch.get_block("conv"))
    assert [kind for kind in block.kinds if kind is ms.LoopKind.UNROLLED] == [ms.LoopKind.UNROLLED] * 2
    correct(sch)


@pytest.mark.parametrize("operator", SMALL)
def test_every_tiling_around_them_is_right(operator: str) -> None:
    program = operators.load(operator, **SMALL[operator])
    for sch in split(program, "multi_level_tiling", "vectorize", "unroll"):
        correct(sch)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("program p[N=9](A: f32[N]) -> B: f32[N]:\n    x: B[i] = A[i] if i % 2 == 0 else 0\n", "it is not a reduction"),
        (
            "program p[N=9](A: f32[N, N]) -> B: f32[N]:\n    x: B[i] = sum[k](A[i, k])\n",
            "none of its conditions is a remainder over elements and terms",
        ),
        (
            "program p[N=9](A: f32[N, N]) -> B: f32[N]:\n    x: B[i] = sum[k if k % 2 == 0](A[i, k])\n",
            "none of its conditions is a remainder over elements and terms",
        ),
        (
            (
                "program p[N=9](A: f32[N, N]) -> B: f32[N]:\n"
                "    x: B[i] = sum[k if (i + k) % 2 == 0 and (i + k) % 3 == 0](A[i, k])\n"
            ),
            "its conditions divide by different numbers",
        ),
        (
            "program p[N=99](A: f32[N, N]) -> B: f32[N]:\n    x: B[i] = sum[k if (i + k) % 29 == 0](A[i, k])\n",
            "its code would have 29 copies",
        ),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, "parities") == {"x": reason}


def test_a_loop_that_no_remainder_depends_on_stays_whole() -> None:
    """The digits of `2*r` are none of the remainder's."""
    (sch,) = split(ms.parse_program(UPSAMPLED.replace("(i + r) % 2", "(i + 2*r + c) % 2")))
    block = sch.describe(sch.get_block("conv"))
    assert {it.name for it in block.iters if len(it.loops) > 1} == {"i", "c"}
    correct(sch)
