"""The shape of the tests: what is skipped without a peer is marked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


SKIPS = re.compile(r"importorskip\(.(torch|onnxruntime)\b")


def unmarked(source: str) -> list[int]:
    """The lines of what is skipped without a peer in a file of tests, and is not marked so, alone or with the file."""
    if "importorskip" not in source:
        return []
    body = ast.parse(source).body
    if any(isinstance(s, ast.Assign) and re.match(r"pytestmark = .*mark\.peers\b", ast.unparse(s)) for s in body):
        return []
    return [s.lineno for s in body if SKIPS.search(ast.unparse(s)) and not _is_marked(s)]


def _is_marked(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and "pytest.mark.peers" in map(ast.unparse, statement.decorator_list)


def test_what_needs_a_peer_is_marked_so() -> None:
    """`make test-peers` runs what is marked."""
    tests = {*TESTS.rglob("test_*.py")} - {Path(__file__)}
    wrong = [f"{path}:{line}" for path in tests for line in unmarked(path.read_text(encoding="utf-8"))]
    assert not wrong, f"without the mark `peers`: {wrong}"
    marked = "import pytest\n@pytest.mark.peers\n"
    test = "def test() -> None:\n    pytest.importorskip('torch')\n"
    assert not unmarked(marked + test)
    assert unmarked("import pytest\n" + test) == [2]
