"""The rule that computes strided reductions with another dimension last."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from tests.support.rulework import correct, reasons, rule

WIDE = ms.Target.parse(
    "name=skylake-avx512 threads=4 l1=32768 l2=1048576 l3=33554432 cacheline=64 features=avx2,avx512f,fma"
)
BIASED = """
program biased[N=3, C=5, O=16](X: f32[C, N + 2], K: f32[C, O, 4], B: f32[O]) -> Z: f32[O, 2 * N]:
    conv: Y[o, i < 2 * N] = sum[c, r if (i + r) % 2 == 0](X[c, (i + r) // 2] * K[c, o, r])
    relu: Z[o, i] = max(Y[o, i] + B[o], 0)
"""
SMALL = {
    "conv1d_transpose_ncl": {"L": 5, "CI": 6, "CO": 18, "R": 4, "S": 2, "P": 1},
    "conv2d_transpose_nchw": {"H": 3, "W": 4, "CI": 5, "CO": 16, "R": 3, "S": 3, "P": 0},
}


def transposed(program: ms.Program, *more: str) -> list[ms.Schedule]:
    """A draw from each sketch whose result is transposed."""
    rng = np.random.default_rng(0)
    space = ms.space(program, rules=[rule("transpose_result"), *map(rule, more)], target=WIDE)
    sketches = [s for s in space if s.structure["transpose_result(conv)/result"] == "transposed"]
    assert 0 < len(sketches) < len(space)
    drawn = []
    for sketch in sketches:
        rows = sketch.repair(sketch.sample(rng, 8))
        row = rows[sketch.mask(rows)][0]
        drawn.append(sketch.trace_of(row).apply_to(program))
    return drawn


@pytest.mark.parametrize("operator", SMALL)
def test_channels_are_last_and_a_copy_transposes(operator: str) -> None:
    (sch,) = transposed(operators.load(operator, **SMALL[operator]))
    conv = sch.describe(sch.get_block("conv"))
    assert conv.spatial[-1].name == "o"
    assert conv.readers == ("conv.Y.reindex",)
    correct(sch)


def test_what_reads_the_result_transposes_it_without_a_copy() -> None:
    (sch,) = transposed(ms.parse_program(BIASED))
    assert sch.describe(sch.get_block("conv")).readers == ("relu",)
    correct(sch)


def test_every_tiling_around_it_is_right() -> None:
    program = operators.load("conv2d_transpose_nchw", **SMALL["conv2d_transpose_nchw"])
    for sch in transposed(program, "parities", "multi_level_tiling", "tile_transposition"):
        correct(sch)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("program p[N=9](A: f32[N]) -> B: f32[N]:\n    x: B[i] = A[i]\n", "it is not a reduction"),
        (
            "program p[N=16](A: f32[N, N]) -> B: f32[N]:\n    x: B[i] = sum[k](A[i, k])\n",
            "neighbours along its last dimension have the same terms",
        ),
        (
            "program p[N=16](A: f32[N, 3]) -> B: f32[3, N]:\n    x: B[j, i] = sum[k if (i + k) % 2 == 0](A[k, j])\n",
            "no other dimension of its result fills a vector",
        ),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, "transpose_result") == {"x": reason}
