"""Finding the candidates of records in a space, by the outlines of their traces, many at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from metasched.errors import LanguageError
from metasched.lang.decisions import from_stored, to_stored
from metasched.lang.instructions import Decision, Ref
from metasched.schedule.distributions.base import NumericDistribution
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Trace
from metasched.schedule.trace_outline import Outline, decisions_text, outline_of_trace
from metasched.search.space_protocol import Candidate, TextOf
from metasched.space.sketch import Sketch
from metasched.support.data_classes import dataclass

# The decisions of a record, as in its outline.
_Decisions = list[Any]


# The arm with some structural decisions, and its sketch.
FindArm = Callable[[Mapping[str, Decision]], "tuple[int, Sketch] | None"]


class Locator:
    """An index of structures by the steps of their traces and by their decisions, which are made as they are met."""

    def __init__(self, arm_of: FindArm) -> None:
        self._arm_of = arm_of
        self._forms: dict[str, _Form | None] = {}
        self._places: dict[tuple[str, str], _Place | None] = {}

    def candidates(self, outlines: Sequence[Outline], text_of: TextOf) -> list[Candidate | None]:
        """The candidate of each outline; None for one that no structure contains.

        `text_of` gives the text of the trace at a position; it is asked for one of each sequence of steps.
        """
        found: list[Candidate | None] = [None] * len(outlines)
        by_steps: dict[str, list[int]] = {}
        for n, outline in enumerate(outlines):
            by_steps.setdefault(outline.structure, []).append(n)
        for steps, positions in by_steps.items():
            form = self._form(steps, text_of, positions)
            if form is not None:
                self._locate(steps, form, outlines, positions, found)
        return found

    def _form(self, steps: str, text_of: TextOf, positions: Sequence[int]) -> _Form | None:
        if steps not in self._forms:
            text = next((text for n in positions if (text := text_of(n)) is not None), None)
            self._forms[steps] = None if text is None else _form_of(text)
        return self._forms[steps]

    def _locate(
        self,
        steps: str,
        form: _Form,
        outlines: Sequence[Outline],
        positions: Sequence[int],
        found: list[Candidate | None],
    ) -> None:
        texts = ",".join(outlines[n].decisions for n in positions)
        decisions: list[_Decisions] = json.loads(f"[{texts}]")
        groups: dict[str, list[int]] = {}
        for at, taken in enumerate(decisions):
            if len(taken) == len(form.addresses):
                groups.setdefault(decisions_text([taken[n] for n in form.structural]), []).append(at)
        for structure, members in groups.items():
            place = self._place(steps, form, structure, decisions[members[0]])
            if place is not None:
                candidates = place.candidates([decisions[at] for at in members])
                for at, candidate in zip(members, candidates, strict=True):
                    found[positions[at]] = candidate

    def _place(self, steps: str, form: _Form, structure: str, taken: _Decisions) -> _Place | None:
        key = (steps, structure)
        if key not in self._places:
            decided = {form.addresses[n]: _structural(taken[n]) for n in form.structural if taken[n] is not None}
            arm = self._arm_of(decided)
            same = arm is not None and outline_of_trace(arm[1].trace).structure == steps
            self._places[key] = _Place.of_sketch(*arm) if arm is not None and same else None
        return self._places[key]


def _structural(stored: Any) -> Decision:
    return Ref(stored["ref"]) if isinstance(stored, dict) else from_stored(stored)


@dataclass(frozen=True)
class _Form:
    """The addresses of the random variables of a trace, in order, and the positions of the structural ones."""

    addresses: tuple[str, ...]
    structural: tuple[int, ...]


def _form_of(text: str) -> _Form | None:
    """The form of a trace's text; None for a text that is not a trace."""
    try:
        random = [i for i in Trace.parse(text).instructions if i.random]
    except (LanguageError, RecursionError):
        return None
    structural = tuple(n for n, i in enumerate(random) if registry()[i.op].branches or registry()[i.op].places)
    return _Form(tuple(i.address or "" for i in random), structural)


@dataclass(frozen=True)
class _Place:
    """A sketch: the number of random variables of its trace, which are decided and how, and which are columns."""

    number: int
    count: int
    fixed: tuple[tuple[int, Any], ...]
    columns: tuple[tuple[int, NumericDistribution], ...]

    @staticmethod
    def of_sketch(number: int, sketch: Sketch) -> _Place:
        random = [i for i in sketch.trace.instructions if i.random]
        at = {i.address: n for n, i in enumerate(random)}
        fixed = [(n, to_stored(i.decision)) for n, i in enumerate(random) if i.decision is not None]
        columns = [(at[v.address], v.dist) for v in sketch.variables]
        return _Place(number, len(random), tuple(fixed), tuple(columns))

    def candidates(self, decisions: Sequence[_Decisions]) -> list[Candidate | None]:
        """The candidates with these decisions; None for those that contradict the sketch's own."""
        fits = [n for n, taken in enumerate(decisions) if self._fits(taken)]
        out: list[Candidate | None] = [None] * len(decisions)
        parts = [_encode_decisions(dist, [decisions[n][at] for n in fits]) for at, dist in self.columns]
        rows = (tuple(chain(*row)) for row in zip(*parts, strict=True)) if parts else (() for _ in fits)
        for n, row in zip(fits, rows, strict=True):
            out[n] = Candidate(self.number, row)
        return out

    def _fits(self, taken: _Decisions) -> bool:
        return (
            len(taken) == self.count
            and all(taken[n] == decision for n, decision in self.fixed)
            and None not in taken  # one that is open
        )


def _encode_decisions(dist: NumericDistribution, taken: Sequence[Any]) -> list[tuple[int, ...]]:
    """The columns of each decision, each distinct one encoded once: there are far fewer of them than records."""
    known: dict[object, tuple[int, ...]] = {}
    out = []
    for item in taken:
        key = tuple(item) if isinstance(item, list) else item
        if key not in known:
            known[key] = dist.encode(from_stored(item))
        out.append(known[key])
    return out
