"""Decisions in modules, `:=`, that are wrong for every program."""

from __future__ import annotations

from typing import Any

from metasched.ir.source import Apply, Keyword, Starred
from metasched.lang.decisions import print_decision
from metasched.lang.instructions import Ref
from metasched.lang.module_tree import Draw
from metasched.schedule.primitive import registry
from metasched.space.text.values import plain


def find_mistake(draw: Draw) -> str | None:
    """The mistake in a decision that is wrong for every program; None if the text does not show one."""
    declaration = registry().get(draw.call.func)
    if draw.decision is None or isinstance(draw.decision, Ref) or declaration is None:
        return None
    if declaration.outside_support is None:
        return None
    support = declaration.outside_support(_plain_arguments(draw.call), draw.decision)
    decision = print_decision(draw.decision)
    return None if support is None else f"the decision {decision} is not in the support ({support})"


def _plain_arguments(call: Apply) -> dict[str, Any]:
    """The arguments with literal values, and the defaults of those left out, by parameter."""
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
