"""Compares traces without parsing them: by a hash of the steps, and the decisions.

Two candidates are equal if both parts are. Traces that differ only in handles' names, in the addresses of random
variables, or in how an argument is written have the same structure.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from metasched.errors import LanguageError
from metasched.lang import print_instruction
from metasched.lang.decisions import to_stored
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass

_HEAD = re.compile(r"^\s*trace\b", re.MULTILINE)
_DECISION_PATTERN = re.compile(r'( @ "(?:[^"\\\n]|\\.)*") := ([^\n]*)$', re.MULTILINE)
_FACTORS = re.compile(r"\[(?:_|-?\d+)(?:, (?:_|-?\d+))*\]")
_LITERAL = re.compile(r'-?\d+|"(?:[^"\\\n]|\\.)*"')
_WORDS = {"True": "true", "False": "false"}
_SEPARATORS = (",", ":")


class Outline(NamedTuple):  # and no dataclass: a hundred thousand are made and hashed where a search goes on
    """A trace in two parts: a hash of its steps without decisions, and a JSON list of the decisions in order.

    In `decisions`, `null` is `_` or an open decision, `{"ref": "i_0"}` the name of a loop; other values stand for
    themselves. A text that is not a trace has no structure, and its `decisions` is the text itself.
    """

    structure: str
    decisions: str


# A search asks for the outline of a trace several times; telling what is wrong with a text that is none takes longest.
@lru_cache(maxsize=4096)
def outline_of(text: str) -> Outline:
    """The outline of a trace's text. It takes 20 microseconds where a trace of the same steps was seen before."""
    if _HEAD.search(text) is None:  # to tell so takes a thousandth of what it takes to tell what is wrong
        return Outline("", text)
    found: list[str] = []

    def cut(match: re.Match[str]) -> str:
        found.append(match[2])
        return match[1]

    try:
        steps = _steps(_DECISION_PATTERN.sub(cut, text))
    except (LanguageError, RecursionError):
        return _parse_outline(text)
    decisions = [_decision_json(decided) for decided in found]
    if steps.random != len(found) or None in decisions:
        return _parse_outline(text)
    return Outline(steps.structure, f"[{','.join(d for d in decisions if d is not None)}]")


def outline_of_trace(trace: Trace) -> Outline:
    """The outline of a trace."""
    decided = [to_stored(i.decision) for i in trace.instructions if i.random]
    return Outline(_structure(trace), decisions_text(decided))


def decisions_text(decisions: list[Any]) -> str:
    """Stored decisions as the text of an `Outline`: equal ones give equal texts."""
    return json.dumps(decisions, separators=_SEPARATORS)


@dataclass(frozen=True)
class _Steps:
    """The structure of a trace, and how many random variables it has."""

    structure: str
    random: int


@lru_cache(maxsize=1024)
def _steps(text: str) -> _Steps:
    """The steps of a trace's text without decisions. Raises LanguageError if the text is not a trace."""
    trace = Trace.parse(text)
    random = [i for i in trace.instructions if i.random]
    whole = all(i.decision is None for i in random)
    return _Steps(_structure(trace), len(random) if whole else -1)


def _parse_outline(text: str) -> Outline:
    try:
        return outline_of_trace(Trace.parse(text))
    except (LanguageError, RecursionError):
        return Outline("", text)


def _structure(trace: Trace) -> str:
    steps = trace.canonical().instructions
    lines = (print_instruction(replace(step, address=None, decision=None)) for step in steps)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _decision_json(decided: str) -> str | None:
    """A decision's text in a trace as JSON; None for one that has to be parsed."""
    if _FACTORS.fullmatch(decided):
        return decided.replace("_", "null").replace(" ", "")
    if _LITERAL.fullmatch(decided):
        return decided
    if decided.isidentifier() and decided not in {"None", "_"}:
        return _WORDS.get(decided) or f'{{"ref":"{decided}"}}'
    return None
