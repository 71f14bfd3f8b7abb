"""Decisions of random variables, converted between Python, text, JSON and traces.

| in a trace | in Python | as text | as JSON | in a record's outline |
|---|---|---|---|---|
| `(HOLE, 8)` | `[None, 8]` | `[_, 8]` | `[{"hole": true}, 8]` | `[null, 8]` |
| `Ref("j_0")` | `"j_0"` | `j_0` | `{"ref": "j_0"}` | `{"ref": "j_0"}` |
| `"outer"` | `"outer"` | `"outer"` | `"outer"` | `"outer"` |

In an outline (`metasched.schedule.trace_outline`), null is an open decision. In Python the name of a loop is a text;
only the random variable determines whether a text is a name of a loop.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from metasched.ir.source import BoolLit, FloatLit, IntLit, ListLit, Name, NoneLit, SourceExpr, TextLit
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.instructions import HOLE, Decision, Hole, Ref


def from_python(value: object, *, places: bool) -> Decision:
    """Convert a decision from its Python form to the trace's; one already in the trace's form is unchanged.

    `places`: whether the variable takes compute locations, so that texts are names of loops, `root` or `inline`.
    NumPy's numbers are Python's, and its arrays lists. Raises ValueError with the reason for what is no decision.
    """
    plain = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    match plain:
        case list() | tuple():
            return tuple(HOLE if item is None else from_python(item, places=False) for item in plain)
        case str() if places:
            return Ref(plain)
        case float() if math.isnan(plain):
            raise ValueError("NaN is no decision: nothing compares equal to it")
        case Ref() | Hole() | str() | bool() | int() | float():
            return plain
    raise ValueError(f"{value!r} is a {type(value).__name__}, and no decision")


def to_python(decision: object) -> object:
    """Convert a decision in either form to its Python form, lists as tuples. Equal decisions give equal values."""
    if isinstance(decision, Ref):
        return decision.name
    if isinstance(decision, Hole):
        return None
    if isinstance(decision, list | tuple):
        return tuple(to_python(item) for item in decision)
    return decision


def decision_text(decision: object) -> str:
    """A decision in either form, as shown in messages: the name of a loop is a text."""
    plain = to_python(decision)
    if isinstance(plain, tuple):
        return "[" + ", ".join("_" if item is None else str(item) for item in plain) + "]"
    return f'"{plain}"' if isinstance(plain, str) else str(plain)


# --- text ------------------------------------------------------------------------------------------------


def print_decision(decision: Decision) -> str:
    """A random variable's decision as text."""
    match decision:
        case Ref(name=name):
            return name
        case Hole():
            return "_"
        case str():
            return json.dumps(decision)
        case tuple():
            return "[" + ", ".join(print_decision(item) for item in decision) + "]"
    return repr(decision)


def read_decision(e: SourceExpr, diagnostics: Diagnostics) -> Decision:
    """Read a random variable's decision from the expression after `:=`."""
    match e:
        case TextLit(value=value) | IntLit(value=value) | FloatLit(value=value) | BoolLit(value=value):
            return value
        case ListLit(items=items):
            return tuple(read_decision(item, diagnostics) for item in items)
        case Name(name=name):
            return HOLE if name == "_" else Ref(name)
        case NoneLit():
            diagnostics.error(e.at, "`None` is no decision", "leave out `:= None`, and the variable is open")
        case _:
            message = f"a decision is a plain value, and `{print_source(e)}` is arithmetic"
            diagnostics.error(e.start, message, "write the number it stands for")
    return HOLE


# --- JSON ------------------------------------------------------------------------------------------------


def to_json(decision: Decision) -> Any:
    """A decision as `json.dumps` takes it. Raises TypeError for NaN."""
    match decision:
        case Ref(name=name):
            return {"ref": name}
        case Hole():
            return {"hole": True}
        case tuple():
            return [to_json(item) for item in decision]
        case float() if not math.isfinite(decision):
            if math.isnan(decision):
                raise TypeError("a trace cannot hold NaN: nothing compares equal to it")
            return {"float": "inf" if decision > 0 else "-inf"}
    return decision


def from_json(raw: Any) -> Decision:
    """The decision that `to_json` wrote. Raises ValueError with the reason for anything else."""
    match raw:
        case list():
            return tuple(from_json(item) for item in raw)
        case float() if math.isnan(raw):
            raise ValueError("a trace cannot hold NaN: nothing compares equal to it")
        case str() | bool() | int() | float():
            return raw
        case {"ref": str() as name} if len(raw) == 1 and name.isidentifier():
            return Ref(name)
        case {"hole": True} if len(raw) == 1:
            return HOLE
        case {"float": ("inf" | "-inf") as text} if len(raw) == 1:
            return float(text)
    raise ValueError(f"{raw!r} is no decision; objects have one key of ref, hole, float")


def to_stored(decision: Decision | None) -> Any:
    """Convert a decision to the form in a record's outline; None for an open one."""
    match decision:
        case None | Hole():
            return None
        case tuple():
            return [to_stored(item) for item in decision]
    return to_json(decision)


def from_stored(stored: Any) -> Decision:
    """Convert a number or literal back from `to_stored`'s form; a compute location is returned unchanged."""
    return from_python(stored, places=False)
