"""Which loop each iteration variable of a block is bound to."""

from __future__ import annotations

from metasched.rules.own_loops import own_loops

import metasched as ms


def test_each_variable_has_its_own_whatever_their_order() -> None:
    sch = ms.Schedule(ms.operator("matmul_nn", M=4, N=6, K=8))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.reorder(k, j, i)
    found = own_loops(sch, block, sch.describe(block))
    assert [sch.describe(block).loops[sch.get_loops(block).index(loop)] for loop in found] == ["i", "j", "k"]
    assert found != sch.get_loops(block)
