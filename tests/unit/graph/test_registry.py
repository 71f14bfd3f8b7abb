"""Node types are found by their files."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from metasched.graph.registry import FILES, node_types

ROOT = Path(__file__).parents[3]


def test_the_page_of_node_types_lists_every_node_type() -> None:
    page = (ROOT / "docs/networks/node_types.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert rows == {file: ", ".join(sorted(declared)) for file, declared in FILES.load().items()}


def test_every_family_has_a_test() -> None:
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests/unit/graph/node_types").glob("test_*.py")}
    assert tests == set(FILES.load())


def test_no_node_type_is_declared_twice() -> None:
    assert len(node_types()) == sum(len(declared) for declared in FILES.load().values())


def test_a_file_without_a_node_type_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="must declare a node type"):
        FILES.read("empty", ModuleType("empty"))
