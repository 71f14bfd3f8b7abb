"""Index expressions in linear form."""

from __future__ import annotations

import pytest

from metasched.graph.fusion.indices import decide_comparison, linear_form
from metasched.graph.fusion.stages import parse_once
from metasched.ir.source import Operation, Read, SourceExpr
from metasched.ir.source_printer import print_source


def _index(text: str) -> SourceExpr:
    """An index expression over i < 8, j < 4 and k < 64."""
    program = parse_once(f"program p(A: f32[9999]) -> Y: f32[8, 4, 64]:\n    Y[i, j, k] = A[max({text}, 0)]\n")
    (read,) = (node for node in program.definition.walk() if isinstance(node, Read))
    return read.indices[0].args[0]  # type: ignore[attr-defined,no-any-return]


EXTENTS = {"i": 8, "j": 4, "k": 64}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("k + 64 * i - k", "64 * i"),
        ("(64 * i + k) // 64", "i"),
        ("(64 * i + k) % 64", "k"),
        ("(64 * (4 * i + j) + k) // 64 // 4", "i"),
        ("(i + 3) * 2 - 6", "2 * i"),
        ("(i + j) // 3", "(i + j) // 3"),
        ("(i + 8 * j) % 16", "8 * (j % 2) + i"),
        ("(8 * j + i + 7) % 16", "(8 * j + i + 7) % 16"),
        ("(64 * i + k) // 128", "i // 2"),
        ("(64 * (4 * i + j) + k) % 512", "256 * (i % 2) + 64 * j + k"),
        ("(16 * i + 4 * j + 2) // 48", "i // 3"),
        ("-i + 9", "-1 * i + 9"),
        ("k // 64", "0"),
    ],
)
def test_what_ranges_decide_is_worked_out(text: str, wanted: str) -> None:
    found = linear_form(_index(text), EXTENTS)
    assert found is not None
    assert print_source(found.expression()) == wanted


@pytest.mark.parametrize("text", ["i * j", "i * i"])
def test_what_is_not_linear_is_none(text: str) -> None:
    assert linear_form(_index(text), EXTENTS) is None


@pytest.mark.parametrize(
    ("text", "wanted"), [("i + j < 11", True), ("i + j < 10", None), ("i >= 8", False), ("k + 1 > 0", True)]
)
def test_comparisons_that_always_hold(text: str, wanted: bool | None) -> None:
    program = parse_once(f"program p(A: f32[8]) -> Y: f32[8, 4, 64]:\n    Y[i, j, k] = A[i] if {text} else 0.0\n")
    (compared,) = (n for n in program.definition.walk() if isinstance(n, Operation) and n.op.is_comparison)
    assert decide_comparison(compared, EXTENTS) is wanted
