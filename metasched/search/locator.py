"""Finding the candidates of records in a space, by the outlines of their traces, many at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from metasched.lang.decisions import from_stored, to_stored
from metasched.schedule.distributions.base import NumericDistribution
from metasched.schedule.trace_outline import Outline, outline_of_trace
from metasched.search.space_protocol import Candidate
from metasched.space.sketch import Sketch

# The decisions of a record, as in its outline.
_Decisions = list[Any]


class Locator:
    """An index of sketches, by their structure and by their decisions."""

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self._places: dict[str, list[_Place]] = {}
        for number, sketch in enumerate(sketches):
            place = _Place.of(number, sketch)
            self._places.setdefault(outline_of_trace(sketch.trace).structure, []).append(place)

    def candidates(self, outlines: Sequence[Outline]) -> list[Candidate | None]:
        """The candidate of each outline; None for one that no sketch contains."""
        found: list[Candidate | None] = [None] * len(outlines)
        by_structure: dict[str, list[int]] = {}
        for n, outline in enumerate(outlines):
            if outline.structure in self._places:
                by_structure.setdefault(outline.structure, []).append(n)
        for structure, positions in by_structure.items():
            texts = ",".join(outlines[n].decisions for n in positions)
            decisions: list[_Decisions] = json.loads(f"[{texts}]")
            for place in self._places[structure]:
                for n, candidate in zip(positions, place.candidates(decisions), strict=True):
                    found[n] = found[n] or candidate
        return found


@dataclass(frozen=True)
class _Place:
    """A sketch: the number of random variables of its trace, which are decided and how, and which are columns."""

    number: int
    count: int
    fixed: tuple[tuple[int, Any], ...]
    columns: tuple[tuple[int, NumericDistribution], ...]

    @staticmethod
    def of(number: int, sketch: Sketch) -> _Place:
        random = [i for i in sketch.trace.instructions if i.random]
        at = {i.address: n for n, i in enumerate(random)}
        fixed = [(n, to_stored(i.decision)) for n, i in enumerate(random) if i.decision is not None]
        columns = [(at[v.address], v.dist) for v in sketch.variables]
        return _Place(number, len(random), tuple(fixed), tuple(columns))

    def candidates(self, decisions: Sequence[_Decisions]) -> list[Candidate | None]:
        """The candidates with these decisions; None for those that contradict the sketch's own."""
        fits = [n for n, taken in enumerate(decisions) if self._fits(taken)]
        out: list[Candidate | None] = [None] * len(decisions)
        parts = [_encoded(dist, [decisions[n][at] for n in fits]) for at, dist in self.columns]
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


def _encoded(dist: NumericDistribution, taken: Sequence[Any]) -> list[tuple[int, ...]]:
    """The columns of each decision, each distinct one encoded once: there are far fewer of them than records."""
    known: dict[object, tuple[int, ...]] = {}
    out = []
    for item in taken:
        key = tuple(item) if isinstance(item, list) else item
        if key not in known:
            known[key] = dist.encode(from_stored(item))
        out.append(known[key])
    return out
