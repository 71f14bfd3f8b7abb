"""The best time by each value of a decision: what a rule did to a program, as its author wants to see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from metasched.report.candidates import MeasuredCandidate
from metasched.report.progress_text import duration
from metasched.support.data_classes import dataclass

# Numbers that took more values than this are not told one by one.
MOST_VALUES = 12


@dataclass(frozen=True)
class ValueResult:
    """What came of the candidates that decided one value.

    Attributes:
        value: as a trace has it; None where the decision is not in the trace: what leads to it was not chosen.
        count: how many candidates there were, `failed` how many of them have no time.
        best_s: the least time, bounds left out; None without any.
        median_s: the median time, bounds included; None without any.
        best: the number of the candidate with the least time.
    """

    value: str | None
    count: int
    failed: int
    best_s: float | None
    median_s: float | None
    best: int | None

    @property
    def name(self) -> str:
        """The value, for a person."""
        return "not there" if self.value is None else self.value

    @property
    def time(self) -> str:
        """The least time, or what bounds are known, for a person."""
        if self.best_s is not None:
            return duration(self.best_s)
        return "-" if self.median_s is None else f"over {duration(self.median_s)}"


@dataclass(frozen=True)
class ChoiceResult:
    """What came of each value of one decision, the fastest first.

    `structural` ones choose the steps of the program, others their numbers.
    """

    address: str
    structural: bool
    values: tuple[ValueResult, ...]

    @property
    def gain(self) -> float:
        """How many times as fast the best value is as the best of another; 1 where there is no other."""
        times = [value.best_s for value in self.values if value.best_s is not None]
        return times[1] / times[0] if len(times) > 1 else 1.0

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, in seconds."""
        return asdict(self) | {"gain": self.gain}


def choices_of(candidates: Sequence[MeasuredCandidate]) -> tuple[ChoiceResult, ...]:
    """What each address decided more than one way: structural ones first, then in the order of the traces."""
    structural: dict[str, bool] = {}
    decided: list[dict[str, str]] = []
    for candidate in candidates:
        decided.append({decision.address: decision.value for decision in candidate.decisions})
        for decision in candidate.decisions:
            structural.setdefault(decision.address, decision.structural)
    found = []
    for address in sorted(structural, key=lambda name: not structural[name]):
        by_value: dict[str | None, list[MeasuredCandidate]] = {}
        for candidate, values in zip(candidates, decided, strict=True):
            by_value.setdefault(values.get(address), []).append(candidate)
        if len(by_value) > 1 and (structural[address] or len(by_value) <= MOST_VALUES):
            results = sorted((_result(*item) for item in by_value.items()), key=_sort_key)
            found.append(ChoiceResult(address, structural[address], tuple(results)))
    return tuple(found)


def _result(value: str | None, candidates: Sequence[MeasuredCandidate]) -> ValueResult:
    timed = sorted(c.seconds for c in candidates if c.seconds is not None)
    sure = [(c.seconds, c.number) for c in candidates if c.seconds is not None and not c.bound]
    best_s, best = min(sure, default=(None, None))
    median = timed[len(timed) // 2] if timed else None
    return ValueResult(value, len(candidates), sum(c.failure is not None for c in candidates), best_s, median, best)


def _sort_key(result: ValueResult) -> tuple[float, float]:
    return result.best_s or float("inf"), result.median_s or float("inf")
