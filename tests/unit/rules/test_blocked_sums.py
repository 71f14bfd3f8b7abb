"""The rule for long sums."""

from __future__ import annotations

import pytest

from metasched.ir import query
from tests.support.rulework import apply

TERMS = """
program terms[N=5000, T=f32](A: T[3, N]) -> C: T[3]:
    total: C[i] = {}[k](A[i, k])
"""


def test_a_long_sum_is_taken_in_blocks_and_so_are_its_parts() -> None:
    sch, _ = apply(TERMS.format("sum"), "blocked_sums")
    total = sch.get_block("total")
    sch.rfactor(sch.split(sch.get_loops(total)[-1], [None, 4])[0])
    noted = [(b.name, note.key) for b in query.blocks(sch.func) for note in b.annotations]
    assert noted == [("total.rf", "blocked_sum"), ("total", "blocked_sum")]


@pytest.mark.parametrize(
    ("reduce", "sizes"),
    [("sum", {"N": 4096}), ("max", {}), ("sum", {"T": "f64"}), ("sum", {"T": "i32"})],
    ids=["short", "max", "f64", "i32"],
)
def test_others_are_left_as_they_are(reduce: str, sizes: dict[str, object]) -> None:
    sch, (outcome,) = apply(TERMS.format(reduce), "blocked_sums", **sizes)
    assert outcome.reason == "it is no sum of more than 4096 terms of f32"
    assert not query.find_block(sch.func, "total").annotations
