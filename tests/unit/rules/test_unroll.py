"""The rule that unrolls the loops of tiles, so that sums are in registers."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.lang.instructions import Decision
from metasched.space.source import FromRules
from tests.support.decided import Decided, tile
from tests.support.programs import DENSE_RELU
from tests.support.rulework import apply, correct, rule
from tests.support.targets import AVX512

COLUMNS = """
program columns[N=30, M=13](A: f32[N, M]) -> C: f32[M]:
    sums: S[j] = sum[i](A[i, j])
    more: C[j] = S[j] + 1
"""


def tiled(fusion: str, **decided: Decision) -> ms.Schedule:
    """A product in tiles of 3 x 32 on AVX-512, which has registers for them."""
    decisions: dict[str, Decision] = {
        "multi_level_tiling(dense)/fusion": fusion,
        "multi_level_tiling(dense)/i": tile(2, 1, 3),
        "multi_level_tiling(dense)/j": tile(2, 1, 32),
        "vectorize(dense)/lanes": 16,
        "unroll(dense)/limit": 16,
        **{f"unroll(dense)/{name}": decision for name, decision in decided.items()},
    }
    if fusion != "none":
        decisions["vectorize(relu)/lanes"] = 16
    handler = Decided(decisions)
    sch = ms.Schedule(ms.parse_program(DENSE_RELU, N=24, M=128), AVX512, handler=handler)
    FromRules(tuple(rule(name) for name in ("multi_level_tiling", "vectorize", "unroll"))).run(sch)
    assert not handler.left
    return sch


@pytest.mark.parametrize(("unrolled", "kind"), [(1, ArrayKind.REGISTER), (0, ArrayKind.SHARED)])
def test_a_finished_tile_is_in_registers_for_its_reader(unrolled: int, kind: ArrayKind) -> None:
    sch = tiled("consumer at level 2", tile=unrolled)
    assert {array.kind for array in lower(sch.func, AVX512).arrays if array.name == "C"} == {kind}
    assert f"@unroll_limit({32 * unrolled})" in str(sch)
    correct(sch)


def test_a_reader_in_another_nest_is_left_alone() -> None:
    sch = tiled("none")
    assert "unroll(dense)/tile" not in sch.trace.decisions
    assert str(sch).count("@unroll_limit") == 1


def test_a_reduction_without_tiles_has_no_tile_for_a_reader() -> None:
    columns = ("columns", rule("unroll")(limits=(16,)))
    sch, _ = apply(COLUMNS, *columns)
    assert "unroll(sums)/tile" not in sch.trace.decisions
