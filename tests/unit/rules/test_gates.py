"""The rule that computes all gates of a tile, and what they are for, at a time."""

from __future__ import annotations

import numpy as np
import pytest
from metasched.rules.gates import gates

import metasched as ms
from metasched.space.sketch import Sketch
from tests.support.rulework import correct, reasons

# Two gates of which one result is an output that the other reads, as cells are.
CELLS = """
program cells[N=3, K=5, M=21](A: f32[N, K], B: f32[K, 2, M], C: f32[N, M]) -> (Y: f32[N, M], Z: f32[N, M]):
    T: f32[N, 2, M]
    T[i, g, j] = sum[k](A[i, k] * B[k, g, j])
    Y[i, j] = T[i, 0, j] * C[i, j] + T[i, 1, j]
    Z[i, j] = max(Y[i, j], 0) - T[i, 1, j]
"""
# One row, and a value between that is no output.
ROW = """
program row[K=6, M=40](A: f32[1, K], B: f32[K, 3, M]) -> Y: f32[1, M]:
    T: f32[1, 3, M]
    T[i, g, j] = sum[k](A[i, k] * B[k, g, j])
    N[i, j] = max(T[i, 2, j], T[i, 1, j])
    Y[i, j] = N[i, j] * N[i, j] - T[i, 0, j]
"""


def made(text: str, *others: str) -> tuple[ms.Space, list[Sketch]]:
    space = ms.space(ms.parse_program(text), rules=[gates, *others])
    return space, list(space)


@pytest.mark.parametrize("text", [CELLS, ROW], ids=["cells", "row"])
def test_gates_are_right_tiled_and_in_vectors(text: str) -> None:
    space, (sketch, *_) = made(text, "packing", "vectorize", "unroll")
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 3))
    for row in rows[sketch.mask(rows)]:
        sch = sketch.trace_of(row).apply_to(space.program)
        correct(sch)
        blocks = [sch.describe(sch.get_block(name)) for name in sch.block_names() if ".read" not in name]
        assert len({block.loops[0] for block in blocks}) == 1


@pytest.mark.parametrize(
    ("stages", "reason"),
    [
        ("Y[i, j] = T[i, 0, j] * 2", None),
        ("Y[i, j] = T[i, 0, 20 - j] * 2", "Y reads T at other elements than its own"),
        ("Y[i, j] = sum[g](T[i, g, j])", "Y, which is computed of its results, is a reduction, or scheduled already"),
    ],
)
def test_what_it_is_for(stages: str, reason: str | None) -> None:
    text = f"""
program p[N=3, K=5, M=21](A: f32[N, K], B: f32[K, 2, M]) -> Y: f32[N, M]:
    T: f32[N, 2, M]
    T[i, g, j] = sum[k](A[i, k] * B[k, g, j])
    {stages}
"""
    assert reasons(text, gates)["T"] == reason


def test_gates_that_lie_side_by_side_are_left_to_tiling() -> None:
    text = """
program p[N=3, K=5, M=21](A: f32[N, K], B: f32[K, M, 2]) -> Y: f32[N, M]:
    T: f32[N, M, 2]
    T[i, j, g] = sum[k](A[i, k] * B[k, j, g])
    Y[i, j] = T[i, j, 0] * T[i, j, 1]
"""
    assert reasons(text, gates)["T"] == "its gates lie side by side, where vectors would run along them"


def test_one_consumer_of_each_element_is_left_to_tiling() -> None:
    text = """
program p[N=3, K=5, M=21](A: f32[N, K], B: f32[K, M]) -> Y: f32[N, M]:
    T[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = T[i, j] * 2
"""
    assert (
        reasons(text, gates)["T"] == "each of its results is read at one place, so that a consumer can be fused with it"
    )
