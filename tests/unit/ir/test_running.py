"""Which blocks are running reductions, and of what."""

from __future__ import annotations

import pytest

from metasched.ir import query
from metasched.ir.nodes import BinOp
from metasched.ir.printer import print_expr
from metasched.ir.running import NotRunning, running_reduction
from metasched.lang import parse_program

RUNNING = """
program running[N=6, M=4](X: f32[N, M]) -> Y: f32[N, M]:
    Y[i < N, j] = sum[k < N if CONDITION](X[k, j])
"""


def found(condition: str, **changes: str) -> str:
    text = RUNNING.replace("CONDITION", condition)
    for old, new in changes.items():
        text = text.replace(old, new)
    scan = running_reduction(query.find_block(parse_program(text).func, "Y"))
    return f"{scan.over.name} {scan.relation.value} {scan.along.name}: {print_expr(scan.term)}"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("k <= i", "k <= i: X[k, j]"),
        ("i > k", "k < i: X[k, j]"),
        ("k >= i", "k >= i: X[k, j]"),
        ("k < i and X[k, j] > 0.0", "k < i: X[k, j] if X[k, j] > 0.0 else 0.0"),
    ],
)
def test_relations_and_other_conditions(condition: str, expected: str) -> None:
    assert found(condition) == expected


def test_from_where_to_where_it_runs() -> None:
    scan = running_reduction(query.find_block(parse_program(RUNNING.replace("CONDITION", "k > i")).func, "Y"))
    assert (scan.relation, scan.is_reverse, scan.leaves_out_itself) == (BinOp.GT, True, True)


@pytest.mark.parametrize(
    ("condition", "changes", "reason"),
    [
        ("(k + i) % 2 == 0", {}, "no condition of its terms is `k <= ` a variable of its elements"),
        ("k <= j", {}, "`j` and `k` have not as many values, or depend on sizes"),
        ("k <= i and X[i, j] > 0.0", {}, "its terms depend on `i`"),
        ("k <= i", {"sum[k < N": "sum[l < 2, k < N"}, "it is no reduction over one variable"),
    ],
)
def test_what_is_none(condition: str, changes: dict[str, str], reason: str) -> None:
    with pytest.raises(NotRunning, match=reason.replace("(", "\\(")):
        found(condition, **changes)
