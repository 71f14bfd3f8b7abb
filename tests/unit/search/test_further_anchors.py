"""What is known of a program's reductions besides its anchor."""

from __future__ import annotations

import metasched as ms
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.entries import Entry, parse_entries
from metasched.knowledge.library import Knowledge
from metasched.lang.instructions import HOLE
from metasched.search.further_anchors import KnownOfOthers
from tests.support.targets import AVX512

PERCEPTRON = """
program perceptron(X: f32[32, 64], A: f32[64, 128], B: f32[128, 64]) -> Y: f32[32, 64]:
    wide: U[i, h] = sum[k](X[i, k] * A[k, h])
    V[i, h] = max(U[i, h], 0.0)
    narrow: Y[i, j] = sum[h](V[i, h] * B[h, j])
"""
TEXT = """metasched knowledge 1

kind y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32
cpu 16 lanes, 2 threads
structure
  packing({anchor})/packed := "{anchor#1} in panels"
  compute_location({anchor<0})/{anchor<0} := {"ref": "{anchor$0}_0"}
  compute_location({anchor})/{anchor} := {"ref": "{anchor>0$0}_0"}
numbers
  multi_level_tiling({anchor})/{anchor$0}
  vectorize({writer})/lanes
  vectorize({anchor<0})/lanes
found
  32x128x64 in 10 us: [[null,4,1,8],32,16]
  32x64x100 in 10 us: [[null,2,1,4],64,16]
"""


def known(program: str, entries: tuple[Entry, ...]) -> KnownOfOthers:
    func = ms.parse_program(program).func
    return KnownOfOthers.of(func, anchor_of(func), Knowledge(entries), AVX512)


def test_the_nearest_size_of_its_kind_says_what_becomes_of_a_second_product() -> None:
    found = known(PERCEPTRON, tuple(parse_entries(TEXT)))
    assert anchor_of(ms.parse_program(PERCEPTRON).func).block == "narrow"
    assert found.structure == {"packing(wide)/packed": "A in panels"}
    assert found.numbers == {
        "multi_level_tiling(wide)/i": (HOLE, 4, 1, 8),
        # What comes after it, and the block that writes tiles of its result.
        "vectorize(V)/lanes": 32,
        "vectorize(wide.U.write)/lanes": 32,
    }


def test_what_is_little_beside_the_anchor_decides_nothing() -> None:
    little = PERCEPTRON.replace("B: f32[128, 64]", "B: f32[128, 2048]").replace("Y: f32[32, 64]", "Y: f32[32, 2048]")
    assert known(little, tuple(parse_entries(TEXT))) == KnownOfOthers({}, {})


def test_a_program_with_one_reduction_has_no_others() -> None:
    single = (
        "program one(X: f32[32, 64], A: f32[64, 128]) -> Y: f32[32, 128]:\n    Y[i, h] = sum[k](X[i, k] * A[k, h])\n"
    )
    assert known(single, tuple(parse_entries(TEXT))) == KnownOfOthers({}, {})
