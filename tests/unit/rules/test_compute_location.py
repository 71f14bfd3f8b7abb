"""The rule for where blocks are computed: what follows tiles that `multi_level_tiling` has no place for it in."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import Decision, Ref
from tests.support.rulework import correct, rule

HEADS = """
program heads[L=12, D=8, H=3, E=16](X: f32[L, D], W: f32[D, H*E], b: f32[H*E]) -> Y: f32[H, L, E]:
    dense: C[i, j < H*E] = sum[k](X[i, k] * W[k, j])
    split: Y[h < H, i, e < E] = C[i, h*E + e] + b[h*E + e]
"""
BOTH = """
program both[L=12, D=8, N=40](X: f32[L, D], W: f32[D, N]) -> (Y: f32[L, N], Z: f32[L, N]):
    dense: C[i, j] = sum[k](X[i, k] * W[k, j])
    up: Y[i, j] = max(C[i, j], 0)
    down: Z[i, j] = min(C[i, j], 0)
"""
ONE = """
program one[L=12, D=8, N=40](X: f32[L, D], W: f32[D, N]) -> Y: f32[L, N]:
    dense: C[i, j] = sum[k](X[i, k] * W[k, j])
    up: Y[i, j] = max(C[i, j], 0)
"""
APART: dict[str, Decision] = {"multi_level_tiling(dense)/fusion": "none"}


def space_of(text: str, smallest: int = 1) -> ms.Space:
    located = rule("compute_location")(smallest=smallest)
    return ms.space(ms.parse_program(text), rules=ms.condition([rule("multi_level_tiling"), located], APART))


def test_it_is_in_the_preset() -> None:
    space = ms.space(ms.parse_program(HEADS, L=200), rules=ms.condition("cpu", APART))
    assert all("compute_location(split)/split" in sketch.structure for sketch in space)


@pytest.mark.parametrize(
    ("text", "blocks", "place"), [(HEADS, ["split"], "i_0"), (BOTH, ["down", "up"], "j_0")], ids=["heads", "both"]
)
@pytest.mark.parametrize("inside", [True, False])
def test_every_place_gives_the_result(text: str, blocks: list[str], place: str, inside: bool) -> None:
    space = space_of(text)
    where = Ref(place if inside else "root")
    sketch = space.sketch_near({f"compute_location({block})/{block}": where for block in blocks})
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
    sch = sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(space.program)
    assert sch.describe(sch.get_block("dense")).held[0] == (1 + len(blocks) if inside else 1)
    correct(sch)


@pytest.mark.parametrize(
    ("text", "smallest", "reason"),
    [
        (ONE, 1, "it writes an output"),
        (HEADS, 1000, "it writes an output of only 576 elements"),
    ],
)
def test_it_says_why_not(text: str, smallest: int, reason: str) -> None:
    assert f"compute_location    not applied: {reason}\n" in space_of(text, smallest).explain()
