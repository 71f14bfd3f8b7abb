"""Decisions in modules, `:=`, that no program would allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from metasched.errors import counted
from metasched.ir.source import Apply, Keyword, Starred
from metasched.lang.decisions import print_decision
from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.lang.module_tree import Draw
from metasched.schedule.primitive import registry
from metasched.space.text.values import plain


def outside(draw: Draw) -> str | None:
    """What is wrong with a decision whatever the program; None where the text does not show that anything is."""
    if draw.decision is None or isinstance(draw.decision, Ref) or draw.call.func not in _SUPPORTS:
        return None
    support = _SUPPORTS[draw.call.func](_plain_arguments(draw.call), draw.decision)
    decision = print_decision(draw.decision)
    return None if support is None else f"the decision {decision} is not in the support ({support})"


def _categorical(given: Mapping[str, Any], decision: Decision) -> str | None:
    values = given.get("values")
    if not isinstance(values, list) or any(type(v) is type(decision) and v == decision for v in values):
        return None
    return "one of " + ", ".join(str(v) for v in values)


def _tile(given: Mapping[str, Any], decision: Decision) -> str | None:
    parts, innermost = given.get("parts"), given.get("innermost")
    if not isinstance(parts, int) or not isinstance(innermost, int):
        return None
    fits = isinstance(decision, tuple) and len(decision) == parts and decision[0] == HOLE
    if fits and isinstance(decision, tuple) and all(isinstance(f, Ref) or _is_factor(f) for f in decision[1:]):
        last = decision[-1]
        if not isinstance(last, int) or last <= innermost:
            return None
    return f"`_` and {counted(parts - 1, 'inner factor')}, the innermost at most {innermost}"


def _is_factor(value: Decision) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_SUPPORTS: Mapping[str, Callable[[Mapping[str, Any], Decision], str | None]] = {
    "sample_categorical": _categorical,
    "sample_tile": _tile,
}


def _plain_arguments(call: Apply) -> dict[str, Any]:
    """The arguments whose values the text shows, by parameter, and the defaults of those that are left out."""
    if any(isinstance(arg, Starred) for arg in call.args):
        return {}
    params = registry()[call.func].params
    written = dict(zip((p.name for p in params), (a for a in call.args if not isinstance(a, Keyword)), strict=False))
    written |= {arg.name: arg.value for arg in call.args if isinstance(arg, Keyword)}
    values = {p.name: p.default for p in params if p.name not in written}
    for name, value in written.items():
        try:
            values[name] = plain(value)
        except ValueError:
            continue
    return values
