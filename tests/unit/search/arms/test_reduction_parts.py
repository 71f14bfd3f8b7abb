"""What is known of a program's reductions besides its anchor."""

from __future__ import annotations

import metasched as ms
from metasched.cost.core import DEFAULT_CORE
from metasched.ir import query
from metasched.ir.excerpt import excerpt
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.entries import Entry, parse_entries
from metasched.knowledge.library import Knowledge
from metasched.lang.instructions import HOLE
from metasched.search.arms.reduction_parts import further_parts
from metasched.search.arms.transferred import transferred_into
from tests.support.targets import AVX512

PERCEPTRON = """
program perceptron(X: f32[32, 64], A: f32[64, 128], B: f32[128, 64]) -> Y: f32[32, 64]:
    wide: U[i, h] = sum[k](X[i, k] * A[k, h])
    clipped: V[i, h] = max(U[i, h], 0.0)
    narrow: Y[i, j] = sum[h](V[i, h] * B[h, j])
"""
BLOCK = """
program block(X: f32[8, 8, 16], F: f32[3, 3, 16], W: f32[16, 64]) -> Y: f32[8, 8, 64]:
    P: f32[10, 10, 16]
    D: f32[8, 8, 16]
    pad: P[h, w, c] = X[h - 1, w - 1, c] if h >= 1 and h <= 8 and w >= 1 and w <= 8 else 0
    depthwise: D[h, w, c] = sum[r, s](P[h + r, w + s, c] * F[r, s, c])
    filtered: G[h, w, c] = max(D[h, w, c], 0)
    narrow: Y[h, w, o] = sum[c](G[h, w, c] * W[c, o])
"""
TEXT = """metasched knowledge 1

kind y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32
cpu 16 lanes, 2 threads
structure
  multi_level_tiling({anchor})/fusion := "consumer at level 1"
  packing({anchor})/packed := "{anchor#1} in panels"
numbers
  multi_level_tiling({anchor})/{anchor$0}
  multi_level_tiling({anchor})/{anchor$1}
  multi_level_tiling({anchor})/{anchor$2}
  vectorize({writer})/lanes
  vectorize({anchor})/lanes
  unroll({anchor})/limit
found
  32x128x64 in 10 us: [[null,4,1,8],[null,1,1,32],[null,8],32,16,64]
  32x64x100 in 10 us: [[null,2,1,4],[null,1,1,64],[null,4],64,16,64]
"""


def decided(program: str, entries: tuple[Entry, ...], target: ms.Target = AVX512) -> dict[str, object]:
    """What the most promising of what was carried over has decided."""
    space = ms.space(ms.parse_program(program), target=target)
    best = transferred_into(space, Knowledge(entries), target, DEFAULT_CORE)[0]
    return {**best.sketch.structure, **best.sketch.decisions(best.row)}


def test_parts_have_what_belongs_to_a_reduction() -> None:
    func = ms.parse_program(BLOCK).func
    (depthwise,) = further_parts(ms.parse_program(BLOCK), anchor_of(func))
    blocks = [block.name for block in query.blocks(depthwise.program.func)]
    assert blocks == ["pad", "depthwise", "filtered"]
    assert [b.name for b in depthwise.program.inputs] == ["X", "F"]


def test_decisions_for_a_part_hold_wherever_its_block_is_computed() -> None:
    (wide,) = further_parts(ms.parse_program(PERCEPTRON), anchor_of(ms.parse_program(PERCEPTRON).func))
    found = wide.decisions({"multi_level_tiling(wide)/h": (HOLE, 1, 1, 32), "packing(wide)/packed": "none"})
    assert found["multi_level_tiling(wide)/h_of_wide"] == (HOLE, 1, 1, 32)
    assert found["packing(wide)/packed"] == "none"


def test_what_is_known_of_a_second_product_alone_is_known_of_the_program() -> None:
    entries = tuple(parse_entries(TEXT))
    found = decided(PERCEPTRON, entries)
    alone = excerpt(ms.parse_program(PERCEPTRON), ["wide", "clipped"])
    best = transferred_into(ms.space(alone, target=AVX512), Knowledge(entries), AVX512, DEFAULT_CORE)[0]
    own = {**best.sketch.structure, **best.sketch.decisions(best.row)}
    tiles = {address: said for address, said in own.items() if address.startswith(("multi", "packing"))}
    assert len(tiles) > 3
    assert {address: found[address] for address in tiles} == tiles


def test_what_is_little_beside_the_anchor_decides_nothing() -> None:
    little = PERCEPTRON.replace("B: f32[128, 64]", "B: f32[128, 8192]").replace("Y: f32[32, 64]", "Y: f32[32, 8192]")
    program = ms.parse_program(little)
    assert list(further_parts(program, anchor_of(program.func))) == []
