"""Measuring the codes of the frozen table.

`python -m benchmarks.contest.collect [--only GMM,...] [--codes N] [--seconds S]` adds codes to the table of each
operator until it has N, and ends when the time is over; what is measured is kept, and the next call goes on. The
machine should do nothing else.

No model has a part in what is measured. Two fifths of each step are drawn from the prior of the space, over structures
that are drawn once. The others are bred from the fastest so far, by measured time alone: a number or two changed,
numbers of two parents mixed, or another structure that takes the parent's numbers. What a search begins with (the guess
and what is known of similar programs) is in it where the space has it. Only one of the candidates that have the same
code is measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import metasched as ms
from benchmarks.contest.stored import BRED, DRAWN, FOLDER, StoredTable, load, save
from benchmarks.yardstick.data import TimedCode, TimedTask
from benchmarks.yardstick.samples import sketch_of
from metasched.errors import ScheduleError
from metasched.measure.records import Lowered
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan, median_of
from metasched.operators import TWELVE
from metasched.search.rounds.population import crossover, draw, draw_arms, draw_parents, legal
from metasched.search.space_protocol import Candidate, Rows

CODES = 2000
# Structures that are drawn, and how many there are at most with those bred: rows of one structure have neighbours then.
STRUCTURES = 24
MOST_STRUCTURES = 64
_STEP = 64
_DRAWN_SHARE = 0.4
# Parents are the fastest codes, so many of one structure at most.
_PARENTS = 64
_PARENTS_EACH = 16
# Of what is bred: one number changed, two, numbers of two parents; the rest has another structure.
_ONE, _TWO, _MIXED = 0.45, 0.65, 0.85
# Candidates that are proposed for each that is wanted: many have the code of another.
_PROPOSALS_EACH = 2
# Steps in a row that find nothing new, after which a space is taken to hold no more.
_PATIENCE_STEPS = 4
_PLAN = TimingPlan(sample_s=1.5e-3, samples=3, budget_s=8e-3, visits=2)
# The operators in the order of how long a code takes: those of which most can be had come first.
ORDER = ("GMM", "NRM", "SFM", "C1D", "DEP", "TBG", "GRP", "T2D", "C2D", "CBR", "DIL", "C3D")


@dataclass
class _Growing:
    """A table while codes are added to it; `hashes` are those of the code of all candidates."""

    name: str
    task: ms.Task
    runner: LocalRunner
    codes: dict[Candidate, tuple[float, float]] = field(default_factory=dict)
    drawn: set[Candidate] = field(default_factory=set)
    met: set[Candidate] = field(default_factory=set)
    hashes: set[str] = field(default_factory=set)
    failures: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def best_s(self) -> float | None:
        return min((min(times) for times in self.codes.values()), default=None)

    # --- what is proposed

    def starting_candidates(self) -> list[Candidate]:
        """The candidates of the space that a search begins with."""
        found = (self.task.arms.locate(trace) for trace in self.task.guesses().traces)
        return [candidate for candidate in found if candidate is not None]

    def drawn_now(self, rng: np.random.Generator, count: int) -> Iterator[Candidate]:
        """Draws from the prior, of each structure in turns."""
        arms = draw_arms(np.random.default_rng(0), self.task.arms, STRUCTURES)
        each = -(-count // len(arms))
        rows = [draw(rng, self.task.arms[arm], each) for arm in arms]
        for turn in range(each):
            for at in rng.permutation(len(arms)):
                if turn < len(rows[at]):
                    yield _candidate(arms[at], rows[at][turn])

    def bred_now(self, rng: np.random.Generator, count: int) -> Iterator[Candidate]:
        """Children of the fastest codes."""
        parents = self._parents()
        if not parents:
            return
        weights = -np.arange(len(parents), dtype=np.float64)
        for mother, father in draw_parents(rng, weights, 2 * count).reshape(count, 2):
            child = self._child(rng, parents[mother], parents[father])
            if child is not None:
                yield child

    def _parents(self) -> list[Candidate]:
        taken: Counter[int] = Counter()
        found: list[Candidate] = []
        for candidate in sorted(self.codes, key=lambda one: min(self.codes[one])):
            if taken[candidate.arm] < _PARENTS_EACH and len(found) < _PARENTS:
                taken[candidate.arm] += 1
                found.append(candidate)
        return found

    def _child(self, rng: np.random.Generator, mother: Candidate, father: Candidate) -> Candidate | None:
        arms, kind = self.task.arms, rng.random()
        number, arm = mother.arm, arms[mother.arm]
        row, other = _rows(mother), _rows(father)
        if kind < _TWO:
            row = arm.mutate(rng, row)
            row = row if kind < _ONE else arm.mutate(rng, legal(arm, row))
        elif kind < _MIXED:
            theirs = other if father.arm == number else arm.adopt(rng, arms[father.arm], other)
            row = crossover(rng, arm, row, theirs)
        else:
            found = arms.mutate(rng, number) if father.arm == number else arms.cross(rng, number, father.arm)
            if found is None or not self._may_have(found):
                return None
            number = found
            row = arms[found].adopt(rng, arm, row)
        kept = legal(arms[number], row)
        return _candidate(number, kept[0]) if len(kept) else None

    def _may_have(self, arm: int) -> bool:
        structures = {candidate.arm for candidate in self.codes}
        return arm in structures or len(structures) < MOST_STRUCTURES

    # --- what is measured

    def grow(self, count: int, begun: int) -> int:
        """Measure up to `count` candidates of new code; how many there were."""
        rng = np.random.default_rng([begun, len(self.codes)])
        known = [] if self.codes else self.starting_candidates()
        draws = count if not self.codes else round(count * _DRAWN_SHARE)
        bred = self._new_candidates(
            [*known, *self.bred_now(rng, _PROPOSALS_EACH * (count - draws))], count - draws + len(known)
        )
        drawn = self._new_candidates(self.drawn_now(rng, _PROPOSALS_EACH * draws), draws)
        self.drawn.update(candidate for candidate, _ in drawn)
        chosen = [*bred, *drawn]
        best_s, target = self.best_s, str(self.task.target)
        futures = [
            self.runner.submit(self.task.program, low.candidate.trace, target, best_s, lowered=low, plan=_PLAN)
            for _, low in chosen
        ]
        for (candidate, _), future in zip(chosen, futures, strict=True):
            measured = future.result()
            if measured.failure is not None:
                self.failures[measured.failure.reason] += 1
                continue
            first, *later = (median_of([visit]) for visit in measured.visits)
            self.codes[candidate] = (first, later[-1] if later else first)
        return len(chosen)

    def _new_candidates(
        self, proposed: Iterator[Candidate] | Sequence[Candidate], count: int
    ) -> list[tuple[Candidate, Lowered]]:
        """The first `count` candidates whose code is new; what does not lower is counted."""
        found: list[tuple[Candidate, Lowered]] = []
        left = iter(proposed)
        while len(found) < count:
            some = self._with_traces(left, count - len(found))
            if not some:
                break
            futures = [self.runner.lower(self.task.program, trace, str(self.task.target)) for _, trace in some]
            for (candidate, _), future in zip(some, futures, strict=True):
                lowered = future.result()
                if lowered.code is None:
                    self.failures[lowered.failure.reason if lowered.failure else "no code"] += 1
                elif lowered.code not in self.hashes:
                    self.hashes.add(lowered.code)
                    found.append((candidate, lowered))
        return found

    def _with_traces(self, left: Iterator[Candidate], count: int) -> list[tuple[Candidate, str]]:
        some: list[tuple[Candidate, str]] = []
        for candidate in left:
            if candidate in self.met:
                continue
            self.met.add(candidate)
            try:
                some.append((candidate, self.task.arms.trace(candidate)))
            except ScheduleError as error:
                self.failures[error.reason] += 1
            if len(some) == count:
                break
        return some

    # --- what is stored

    def adopt_table(self, stored: StoredTable, kept: Path | None) -> None:
        """Go on from a stored table. Where hashes were not kept, all is lowered again."""
        for part in stored.parts:
            sketches = {n: sketch_of(part, n, self.task.program) for n in {code.sketch for code in part.codes}}
            for code in part.codes:
                candidate = self.task.arms.locate(str(sketches[code.sketch].trace_of(code.row)))
                if candidate is None:
                    raise ms.MetaschedError(
                        f"the table of {self.name} has a candidate that the space has no more",
                        hint="measure it anew, in another folder: --folder DIR",
                    )
                self.codes[candidate] = (code.first_s, code.second_s)
                if part.pool == DRAWN:
                    self.drawn.add(candidate)
        self.failures.update(stored.drawn.failures)
        self.met.update(self.codes)
        if kept is not None and kept.exists():
            self.hashes.update(json.loads(kept.read_text(encoding="utf-8")))
            return
        target = str(self.task.target)
        futures = [self.runner.lower(self.task.program, self.task.arms.trace(one), target) for one in self.codes]
        self.hashes.update(future.result().code or "" for future in futures)

    def to_stored_table(self) -> StoredTable:
        drawn = [one for one in self.codes if one in self.drawn]
        bred = [one for one in self.codes if one not in self.drawn]
        return StoredTable(self.name, self._part(DRAWN, drawn), self._part(BRED, bred))

    def _part(self, pool: str, candidates: Sequence[Candidate]) -> TimedTask:
        arms, case = self.task.arms, TWELVE[self.name]
        number = {arm: n for n, arm in enumerate(dict.fromkeys(one.arm for one in candidates))}
        codes = [TimedCode(number[one.arm], one.row, *self.codes[one]) for one in candidates]
        return TimedTask(
            case.operator,
            dict(case.params),
            str(self.task.program),
            self.name,
            self.name,
            pool,
            str(self.task.target),
            tuple(str(arms[arm].sketch.trace) for arm in number),
            tuple(codes),
            failures=dict(self.failures) if pool == DRAWN else {},
        )


def _candidate(arm: int, row: Rows) -> Candidate:
    return Candidate(arm, tuple(int(value) for value in row))


def _rows(candidate: Candidate) -> Rows:
    return np.array([candidate.row], dtype=np.int64).reshape(1, len(candidate.row))


def collect(
    name: str, runner: LocalRunner, target: ms.Target, count: int, until: float, folder: Path, kept: Path | None
) -> StoredTable:
    """Grow the table of an operator until it has `count` codes or the time of `time.perf_counter` is reached."""
    growing = _Growing(name, ms.Task(TWELVE[name].program(), target=target), runner)
    stored = load(name, folder)
    hashes = None if kept is None else kept / f"{name}.json"
    if stored is not None:
        growing.adopt_table(stored, hashes)
    stale, begun = 0, 0
    while len(growing) < count and time.perf_counter() < until and stale < _PATIENCE_STEPS:
        found = growing.grow(min(_STEP, count - len(growing)), begun)
        begun += 1
        stale = 0 if found else stale + 1
        save(growing.to_stored_table(), folder)
        if hashes is not None:
            hashes.parent.mkdir(parents=True, exist_ok=True)
            hashes.write_text(json.dumps(sorted(growing.hashes)), encoding="utf-8")
    return growing.to_stored_table()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure codes of the twelve operators for the contest.")
    parser.add_argument("--only", default=",".join(ORDER), metavar="GMM,...", help="these, in this order")
    parser.add_argument("--codes", type=int, default=CODES, help="of each, in the end (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="end after so long (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the files (default: %(default)s)")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="keep hashes of code there, to go on sooner")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    names = args.only.split(",")
    unknown = sorted(set(names) - set(TWELVE))
    if unknown:
        parser.error(f"no operator `{unknown[0]}`: there are {', '.join(TWELVE)}")
    until, target = time.perf_counter() + args.seconds, ms.Target.detect(threads=args.threads)
    with LocalRunner(RunnerSettings(threads=args.threads)) as runner:
        for name in names:
            if time.perf_counter() >= until:
                break
            begun = time.perf_counter()
            before = load(name, args.folder)
            found = collect(name, runner, target, args.codes, until, args.folder, args.kept)
            more = len(found) - (0 if before is None else len(before))
            seconds = time.perf_counter() - begun
            print(f"{name}: {len(found)} codes, {more} of them new, in {seconds:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
