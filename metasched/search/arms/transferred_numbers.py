"""The numbers of neighbours in one structure: each neighbour's own, or some near them that the model clearly prefers.

All neighbours with a structure are varied side by side, as working out features takes about as long for the rows of one
as for those of all.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isinf, log2
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from metasched.cost.model import Model
from metasched.lang.instructions import HOLE, Decision
from metasched.search.arms.sketch_arm import SketchArm
from metasched.search.rounds.population import legal
from metasched.search.space_protocol import Rows
from metasched.space.sketch import Sketch, Variable
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_integer

# Rows that are drawn where the neighbour lacks a number, and rows that differ a little from the best of them.
_DRAWN_ROWS = 32
_VARIED_ROWS = 96
# Working out features takes 3 ms a statement however few the rows are, and drawing rows for a climb 1 ms.
_LEAST_CLIMBS_AHEAD = 4
# A varied row is taken if it is expected to be so many times as fast as the neighbour's own: estimates err, and that
# one was measured somewhere.
LEAST_GAIN = 1.05


@dataclass(frozen=True)
class WantedNumbers:
    """A neighbour's numbers, by address, and how often rows around the best so far are drawn.

    Where a number is lacking, `drawn` rows are drawn before, and in so many rounds of `climbs` whatever is better is
    taken, as there is no row that was measured. A varied row is taken if it is expected to be `gain` times as fast:
    where that is infinite, and the given numbers are legal, none is looked at.
    """

    numbers: Mapping[str, Decision]
    rounds: int
    gain: float = LEAST_GAIN
    drawn: int = _DRAWN_ROWS
    climbs: int = 0


@dataclass(frozen=True)
class ScoredRow:
    """A legal row, and -log2 of the seconds that the model expects of it."""

    row: Rows
    score: float


# Asks for the best legal row of each of some blocks, None where there is none; returns the best of all.
_Varying: TypeAlias = Generator[list[Rows], list[ScoredRow | None], ScoredRow | None]


def best_rows(arm: SketchArm, model: Model, wanted: Sequence[WantedNumbers]) -> list[ScoredRow | None]:
    """For each neighbour the row that takes its numbers, or one near it that the model clearly prefers; None where none
    is legal. It does not depend on which other neighbours there are.
    """
    found: list[ScoredRow | None] = [None] * len(wanted)
    varying = {n: _vary_rows(arm, one) for n, one in enumerate(wanted)}
    asked = {n: next(one) for n, one in varying.items()}
    scores = _Scores(arm, model)
    while asked:
        best = iter(_best_of_each(scores, [rows for blocks in asked.values() for rows in blocks]))
        answers = {n: [next(best) for _ in blocks] for n, blocks in asked.items()}
        asked = {}
        for n, answer in answers.items():
            try:
                asked[n] = varying[n].send(answer)
            except StopIteration as done:
                found[n] = done.value
    return found


def _vary_rows(arm: SketchArm, wanted: WantedNumbers) -> _Varying:
    """The best row for one neighbour: in every further round, rows near the best so far are drawn, until a round finds
    nothing better: of 341 tasks of nine networks, 31 guesses are others than after all rounds, and take as long.
    """
    rng = np.random.default_rng(0)
    rows, complete = _fill_rows(arm.sketch, wanted, rng)
    rounds = wanted.rounds
    if complete and rounds:
        # There is one row to begin with: those near it are looked at beside it.
        own = legal(arm, rows[:1])
        if len(own) and isinf(wanted.gain):
            (best,) = yield [own]
            return best
        best, varied = yield [own, _mutate_row(arm, rng, own if len(own) else rows[:1])]
        before, best = best, _better_row(best, varied, wanted.gain)
        if best is before:
            return best
        return (yield from _look_around(arm, rng, rows[:1], best, replace(wanted, rounds=rounds - 1, climbs=0)))
    if complete:
        (best,) = yield [rows[:1]]
        return best
    # Estimates do not see all that a number decides: what its rule prefers is taken where nothing is gained.
    likely, drawn = yield [_with_likeliest(arm.sketch, rows, wanted.numbers), rows]
    best = _better_row(likely, drawn, wanted.gain)
    return (yield from _look_around(arm, rng, rows[:1], best, wanted))


def _look_around(
    arm: SketchArm, rng: np.random.Generator, first: Rows, best: ScoredRow | None, wanted: WantedNumbers
) -> _Varying:
    """The best row after some climbs, and rounds until one finds nothing better; without one so far near the first.

    Climbs are drawn several at once, as if none found anything better, and those after one that did are drawn again:
    what is found is as if each had been waited for.
    """
    gains = [1.0] * wanted.climbs + [wanted.gain] * wanted.rounds
    at, ahead = 0, _LEAST_CLIMBS_AHEAD
    while at < len(gains):
        near = first if best is None else best.row[None]
        drawn, states = [], []
        for _ in range(min(ahead, max(wanted.climbs - at, 1))):
            drawn.append(_mutate_row(arm, rng, near))
            states.append(rng.bit_generator.state)
        for state, varied in zip(states, (yield drawn), strict=True):
            before, best = best, _better_row(best, varied, gains[at])
            at += 1
            if best is not before:
                rng.bit_generator.state = state
                ahead = _LEAST_CLIMBS_AHEAD
                break
            if at > wanted.climbs:
                return best
        else:
            ahead *= 2
    return best


def _with_likeliest(sketch: Sketch, rows: Rows, given: Mapping[str, Decision]) -> Rows:
    """Rows in which a number that was drawn is what most draws of it are, where there is such a decision."""
    likely = rows.copy()
    for variable in sketch.variables:
        preferred = variable.dist.likeliest
        if preferred is not None and _integers(variable, given.get(variable.address)) is None:
            likely[:, variable.span] = variable.dist.encode(preferred)
    return likely


def _mutate_row(arm: SketchArm, rng: np.random.Generator, row: Rows) -> Rows:
    return arm.mutate(rng, np.repeat(row, _VARIED_ROWS, axis=0))


def _better_row(best: ScoredRow | None, varied: ScoredRow | None, gain: float) -> ScoredRow | None:
    if best is None or (varied is not None and varied.score > best.score + log2(gain)):
        return varied
    return best


class _Scores:
    """What a model expects of the rows of an arm, once a row: most of those that are near another one come again."""

    def __init__(self, arm: SketchArm, model: Model) -> None:
        self.arm = arm
        self._model = model
        self._known: dict[bytes, float] = {}

    def of(self, rows: Rows) -> npt.NDArray[np.float64]:
        """-log2 of the seconds expected of each of some legal rows."""
        names = [row.tobytes() for row in rows]
        new = {name: at for at, name in enumerate(names) if name not in self._known}
        if new:
            found = self._model.predict(self.arm.features(rows[list(new.values())]))
            self._known |= zip(new, found.tolist(), strict=True)
        return np.array([self._known[name] for name in names])


def _best_of_each(scores: _Scores, blocks: Sequence[Rows]) -> list[ScoredRow | None]:
    """The legal row of each block that the model scores highest."""
    rows = scores.arm.repair(np.concatenate(blocks))
    kept = np.flatnonzero(scores.arm.mask(rows))
    expected = scores.of(rows[kept])
    edges = np.searchsorted(kept, np.cumsum([0, *(len(block) for block in blocks)]))
    best = [None if a == b else a + int(np.argmax(expected[a:b])) for a, b in pairwise(edges)]
    return [None if at is None else ScoredRow(rows[kept[at]], float(expected[at])) for at in best]


def _fill_rows(sketch: Sketch, wanted: WantedNumbers, rng: np.random.Generator) -> tuple[Rows, bool]:
    """Rows with the given numbers, and draws for the others; whether nothing had to be drawn."""
    rows = sketch.sample(rng, wanted.drawn)
    complete = True
    for variable in sketch.variables:
        given = _integers(variable, wanted.numbers.get(variable.address))
        if given is None:
            complete = False
        else:
            rows[:, variable.span] = given
    return rows, complete


def _integers(variable: Variable, decision: Decision | None) -> list[int] | None:
    """A decision as columns of a variable; None where it is one of another kind."""
    parts = decision if isinstance(decision, tuple) else (decision,)
    found = [part for part in parts if is_integer(part)]
    whole = len(found) == sum(part is not HOLE for part in parts)
    return found if whole and len(found) == len(variable.columns) else None
