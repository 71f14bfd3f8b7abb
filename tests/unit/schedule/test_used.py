"""Nothing is built that nobody uses: every primitive is used by a rule of ours or by an expert trace."""

from __future__ import annotations

import ast
from pathlib import Path

from metasched.lang import parse_trace
from metasched.schedule.primitive import registry

ROOT = Path(__file__).parents[3]
TRACES = sorted((ROOT / "metasched" / "operators" / "traces").glob("*.trace"))
# Not yet used; this is to be empty.
UNUSED: frozenset[str] = frozenset()


def used_by_rules() -> set[str]:
    """Methods that rules in Python call on a schedule; those in text name the same."""
    found = {
        node.func.attr
        for path in sorted((ROOT / "rules").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "sch"
    }
    return found & set(registry())


def used_by_traces(wanted: set[str]) -> set[str]:
    """What of this a trace has; only those that have it in their text are parsed, which takes long for all."""
    texts = [path.read_text(encoding="utf-8") for path in TRACES]
    return {
        instruction.op
        for text in texts
        if any(f"{name}(" in text for name in wanted)
        for instruction in parse_trace(text).instructions
    }


def test_every_primitive_is_used() -> None:
    left = set(registry()) - used_by_rules()
    unused = left - used_by_traces(left)
    assert unused == UNUSED, "use it in a rule or an expert trace, or do not build it"
