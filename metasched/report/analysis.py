"""Why a search came to what it did: what was believed, what was measured, by what choice, and where the time went.

It is made of records alone, so of any search in a database as well as of the one that has just ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from metasched.database.best import Noise, best_of, noise_of
from metasched.database.record import Record
from metasched.ir.notebook import TextReport
from metasched.report.belief import Belief, belief_of
from metasched.report.candidates import DISTURBED_RATIO, MeasuredCandidate, measured_candidates
from metasched.report.choices import ChoiceResult, choices_of
from metasched.report.progress_text import duration, failures
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

# Why the guess is the best where another's time is lower.
NOTHING_FASTER = "nothing was faster for sure"
_CHOICES_SHOWN = 12
_VALUES_SHOWN = 6


@dataclass(frozen=True)
class CurvePoint:
    """After so many candidates: the least time so far, None while there is none, and what the model expected of the
    last one, None where it was not asked.
    """

    number: int
    best_s: float | None
    expected_s: float | None


@dataclass(frozen=True, repr=False)
class TuningAnalysis(TextReport):
    """What a search did, for a person and for programs.

    Attributes:
        task: the program with its parameters.
        target: the text of the target.
        candidates: all that were measured, in order.
        best: the number of the best one, None where none was valid; `guess` that of the guess, if it has a record.
        choices: what came of each value of each decision that was taken in more than one way.
        belief: how well the model knew; None where records do not say what it expected.
        noise: what repeated measurements show; None where there are none.
        repeated: how many candidates were timed again for that.
        duplicates: how many proposals had the code of another, so that nothing was measured; None where nobody knows.
        failures: how many candidates failed for each reason, `rejected` those found illegal before they were measured.
        phases: seconds of the tuning process by what it did; empty for a search of an earlier call.
        workers: seconds of building and running, summed over workers and candidates.
        program: its text.
        trace: the best candidate's; empty where there is none.
    """

    SHORT = 2

    task: str
    target: str
    candidates: tuple[MeasuredCandidate, ...]
    best: int | None
    guess: int | None
    choices: tuple[ChoiceResult, ...]
    belief: Belief | None
    noise: Noise | None
    repeated: int
    duplicates: int | None
    failures: Mapping[str, int]
    rejected: Mapping[str, int]
    phases: Mapping[str, float]
    workers: Mapping[str, float]
    program: str = ""
    trace: str = ""
    params: tuple[tuple[str, int | str], ...] = field(default=())

    def candidate(self, number: int | None) -> MeasuredCandidate | None:
        """A candidate by its number."""
        return None if number is None else self.candidates[number - 1]

    @property
    def best_s(self) -> float | None:
        """The time of the best one."""
        best = self.candidate(self.best)
        return None if best is None else best.seconds

    @property
    def is_guess(self) -> bool:
        """Whether the best one is the guess, which others with lower times were not certainly faster than."""
        best = self.candidate(self.best)
        return best is not None and best.is_guess

    @property
    def disturbed(self) -> int:
        """How many candidates were disturbed as they were timed: a visit took over `DISTURBED_RATIO` times another."""
        return sum(candidate.disturbed is not None for candidate in self.candidates)

    @property
    def curve(self) -> tuple[CurvePoint, ...]:
        """The least time as candidates were measured, bounds left out."""
        found, best = [], None
        for c in self.candidates:
            if c.seconds is not None and not c.bound:
                best = c.seconds if best is None else min(best, c.seconds)
            found.append(CurvePoint(c.number, best, c.expected_seconds))
        return tuple(found)

    def differing(self, candidate: MeasuredCandidate) -> tuple[tuple[str, str | None, str | None], ...]:
        """What a candidate decided in another way than the best one: (address, its value, the best one's)."""
        best = self.candidate(self.best)
        theirs = {d.address: d.value for d in best.decisions} if best is not None else {}
        own = {d.address: d.value for d in candidate.decisions}
        return tuple(
            (address, own.get(address), theirs.get(address))
            for address in dict.fromkeys((*theirs, *own))
            if own.get(address) != theirs.get(address)
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, times in seconds."""
        noise = None if self.noise is None else {"deviation": self.noise.deviation, "repeats": self.noise.repeats}
        return {
            "task": self.task,
            "target": self.target,
            "best": self.best,
            "guess": self.guess,
            "best_s": self.best_s,
            "candidates": [candidate.to_json() for candidate in self.candidates],
            "choices": [choice.to_json() for choice in self.choices],
            "belief": None if self.belief is None else asdict(self.belief),
            "noise": noise,
            "repeated": self.repeated,
            "disturbed": self.disturbed,
            "duplicates": self.duplicates,
            "failures": dict(self.failures),
            "rejected": dict(self.rejected),
            "phases": dict(self.phases),
            "workers": dict(self.workers),
            "trace": self.trace,
        }

    def __str__(self) -> str:
        lines = [f"{self.task}: {len(self.candidates)} candidates measured"]
        best = self.candidate(self.best)
        lines.append("no candidate was valid" if best is None else f"best: {_found_text(best)}")
        if self.is_guess:
            lines.append(f"it is the guess: {NOTHING_FASTER}")
        lines += self._of_belief()
        lines += self._of_choices()
        lines += self._of_noise()
        if self.failures:
            lines.append(failures(self.failures))
        lines += [f"illegal before it was measured, {times} times: {reason}" for reason, times in self.rejected.items()]
        for name, spent in (("time", self.phases), ("workers", self.workers)):
            if spent:
                lines.append(f"{name}: " + ", ".join(f"{what} {seconds:.1f} s" for what, seconds in spent.items()))
        return "\n".join(lines)

    def _of_belief(self) -> list[str]:
        belief = self.belief
        if belief is None:
            return []
        rank = "" if belief.rank_correlation is None else f", rank correlation {belief.rank_correlation:.2f}"
        text = f"model: off by a factor of {belief.factor:.2f} in the median{rank}"
        first, last = belief.batches[0], belief.batches[-1]
        if len(belief.batches) > 1:
            text += f"; {first.factor:.2f} in the first batch, {last.factor:.2f} in the last"
        return [f"{text}; it had the best as number {belief.place_of_best} of {belief.count}"]

    def _of_choices(self) -> list[str]:
        lines = []
        for choice in sorted(self.choices, key=lambda c: (not c.structural, -c.gain))[:_CHOICES_SHOWN]:
            told = [f"{v.name} {v.time} ({v.count})" for v in choice.values[:_VALUES_SHOWN]]
            more = len(choice.values) - len(told)
            lines.append(f"by {choice.address}: {', '.join(told)}{f', and {more} more' if more else ''}")
        return lines

    def _of_noise(self) -> list[str]:
        lines = [] if self.noise is None else [f"noise of a time: {self.noise}"]
        if self.disturbed:
            share = f"{self.disturbed} of {len(self.candidates)}"
            lines.append(f"disturbed: {share} took over {DISTURBED_RATIO - 1:.0%} longer in one visit than in another")
        if self.duplicates:
            lines.append(f"known code: {counted(self.duplicates, 'proposal')} of code that had been measured")
        return lines


def analysis_of(
    task: str,
    records: Sequence[Record],
    *,
    duplicates: int | None = None,
    phases: Mapping[str, float] | None = None,
    rejected: Mapping[str, int] | None = None,
    best: Record | None = None,
) -> TuningAnalysis:
    """The analysis of the records of one task.

    Args:
        task: what to call it: the program with its parameters.
        records: of one version of the code generator.
        duplicates: proposals that nothing was measured for.
        phases: seconds of the tuning process.
        rejected: candidates found illegal, by reason.
        best: the best of them; by default what `metasched.database.best.best_of` says.
    """
    candidates = measured_candidates(records)
    chosen = best_of(records) if best is None else best
    by_identity = {(c.trace, c.timestamp): c.number for c in candidates}
    guesses = [c.number for c in candidates if c.is_guess and c.trial is not None]
    workers: Counter[str] = Counter()
    for candidate in candidates:
        workers.update(dict(candidate.phases))
    return TuningAnalysis(
        task=task,
        target=records[0].task.target if records else "",
        candidates=candidates,
        best=None if chosen is None else by_identity.get((chosen.trace, chosen.timestamp)),
        guess=guesses[-1] if guesses else None,
        choices=choices_of(candidates),
        belief=belief_of(candidates),
        noise=noise_of(records),
        repeated=sum(candidate.repeats > 0 for candidate in candidates),
        duplicates=duplicates,
        failures=dict(Counter(c.failure for c in candidates if c.failure is not None).most_common()),
        rejected=dict(rejected or {}),
        phases=dict(phases or {}),
        workers=dict(workers.most_common()),
        program="" if chosen is None else chosen.program,
        trace="" if chosen is None else chosen.trace,
        params=() if chosen is None else chosen.params,
    )


def _found_text(candidate: MeasuredCandidate) -> str:
    seconds = "-" if candidate.seconds is None else duration(candidate.seconds)
    expected = candidate.expected_seconds
    believed = "" if expected is None else f", of which the model expected {duration(expected)}"
    return f"{seconds}, number {candidate.number} (batch {candidate.batch}, {candidate.role}){believed}"
