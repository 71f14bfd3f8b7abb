"""What was found for a batch of one, as what is known of the same without a batch.

A program of one image, or of one row, often has no index for it: `Y[h, w, o]` where layers of networks have
`Y[n, h, w, o]`. These are other kinds, for which the same schedules are good. So an entry whose first index has one
value is known of the kind without this index, too: the other indices and loops come one earlier.
"""

from __future__ import annotations

import re
from dataclasses import replace

from metasched.knowledge.entries import Decisions, Entry
from metasched.lang.instructions import Decision, Ref

# The first index alone, as the first of several.
_FIRST_OF_SEVERAL = re.compile(r"\[s0, ")
_ANY_FIRST = re.compile(r"\bs0\b")
_INDEX = re.compile(r"\bs(\d+)\b")
# A loop, by the number of its block's variable.
_LOOP = re.compile(r"\$(\d+)\}")


def kind_without_batch(kind: str) -> str | None:
    """A kind without its first index; None where that is no index of its own in all that is read and written."""
    if not kind.startswith("y[s0, ") or len(_ANY_FIRST.findall(kind)) != len(_FIRST_OF_SEVERAL.findall(kind)):
        return None
    return _INDEX.sub(lambda m: f"s{int(m[1]) - 1}", _FIRST_OF_SEVERAL.sub("[", kind))


def drop_batch(entry: Entry) -> Entry:
    """An entry for a batch of one, of a kind that has one without, as it is for a program without the batch."""
    kind = kind_without_batch(entry.kind)
    assert kind is not None, entry.kind
    structure, numbers = _shift_loops(entry.structure), _shift_loops(entry.numbers)
    return replace(entry, kind=kind, extents=entry.extents[1:], structure=structure, numbers=numbers)


def _shift_loops(decisions: Decisions) -> Decisions:
    """The decisions for a program without the batch's loop: each loop is one place earlier."""
    left = [(address, decision) for address, decision in decisions if "0" not in _LOOP.findall(address)]
    return tuple((_LOOP.sub(_previous_loop, address), _decision(decision)) for address, decision in left)


def _decision(decision: Decision) -> Decision:
    """A place in the loop that is gone is one in the next."""
    if isinstance(decision, Ref):
        return Ref(_LOOP.sub(_previous_loop, decision.name))
    return _LOOP.sub(_previous_loop, decision) if isinstance(decision, str) else decision


def _previous_loop(loop: re.Match[str]) -> str:
    return f"${max(int(loop[1]) - 1, 0)}}}"
