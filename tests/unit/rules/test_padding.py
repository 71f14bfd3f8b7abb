"""The rule that fills padding and copies the interior over it."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from tests.support.rulework import correct, reasons, rule

SMALL = {
    "conv1d_nlc": {"L": 9, "CI": 5, "CO": 8, "R": 3, "S": 2, "P": 1},
    "depthwise_conv2d_nhwc": {"H": 6, "W": 7, "C": 18, "R": 3, "S": 1, "P": 1},
    "max_pool2d_nhwc": {"H": 8, "W": 9, "C": 17, "R": 3, "S": 2, "P": 1},
}


@pytest.mark.parametrize("operator", SMALL)
def test_rows_are_filled_and_copied_wherever_the_padding_is(operator: str) -> None:
    program = operators.load(operator, **SMALL[operator])
    names = ["multi_level_tiling", "compute_location", "padding", "vectorize"]
    space = ms.space(program, rules=[rule(name) for name in names])
    rng = np.random.default_rng(0)
    blocks = set()
    for n in range(0, len(space), 4):
        for sketch in space.variants(n, 3):
            rows = sketch.repair(sketch.sample(rng, 8))
            sch = sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(program)
            blocks |= set(sch.block_names())
            if "pad.fill" in sch.block_names():
                assert not sch.describe(sch.get_block("pad")).conditional
                correct(sch)
    assert "pad.fill" in blocks


def test_it_is_a_choice() -> None:
    space = ms.space(operators.load("max_pool2d_nhwc", **SMALL["max_pool2d_nhwc"]), rules=[rule("padding")])
    assert [sketch.structure for sketch in space] == [{"padding(pad)/padding": how} for how in ("decomposed", "copied")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("program p[N=9](A: f32[N]) -> B: f32[N]:\n    x: B[i] = A[i]\n", "it is no padding"),
        ("program p[N=9](A: f32[N, N]) -> B: f32[N]:\n    x: B[i] = sum[k if k < i](A[i, k])\n", "it is no padding"),
        (
            "program p[N=9](A: f32[N]) -> B: f32[N]:\n    x: B[i] = A[i] if A[i] > 0 else 0\n",
            "decompose_padding: the condition of block `x` is more than bounds on its iteration variables",
        ),
        (
            "program p[N=9](A: f32[N], C: f32[N]) -> B: f32[N]:\n    x: B[i] = A[i] if i > 2 else C[i]\n",
            "decompose_padding: block `x` is not padding, `VALUE if CONDITION else CONSTANT`",
        ),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, "padding") == {"x": reason}
