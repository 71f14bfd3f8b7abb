"""A search that is played on a table: a strategy proposes, and the table answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from benchmarks.contest.described import Table
from benchmarks.contest.frozen import TableArms
from metasched.cost.model_registry import MakeModel
from metasched.search.space_protocol import Candidate, Observation
from metasched.search.strategy_registry import MakeStrategy, StrategyInputs
from metasched.search.task_search import batch_size

TRIALS = 128
# Batches in a row that bring nothing new, after which a strategy is taken to have ended.
_PATIENCE = 6


@dataclass(frozen=True)
class Played:
    """What came of a search: the best time after each code, in multiples of the best of the table, and the seconds that
    the strategy took, with its model's.

    `codes` is how many were measured: fewer than the length of `course` where the strategy found nothing more.
    """

    course: tuple[float, ...]
    codes: int
    seconds: float


def play(
    table: Table,
    strategy: MakeStrategy,
    model: MakeModel,
    seed: int,
    trials: int = TRIALS,
    best_s: float | None = None,
) -> Played:
    """Search a table for `trials` codes, batch by batch as a real search does, from nothing.

    `best_s` is what times are told as multiples of: by default the best of the table. Raises KeyError for a strategy
    that proposes what is not in the table.
    """
    arms = TableArms(table)
    begun = time.process_time()
    player = strategy(StrategyInputs(arms, model(seed), seed))
    measured: dict[Candidate, float] = {}
    stale = 0
    while len(measured) < trials and stale < _PATIENCE:
        before = len(measured)
        results = [Observation(one, arms.seconds(one)) for one in player.propose(batch_size(before, 0))]
        for result in results:
            measured.setdefault(result.candidate, result.seconds or inf)
        player.observe(results)
        stale = stale + 1 if len(measured) == before else 0
    seconds = time.process_time() - begun
    times = list(measured.values())[:trials]
    return Played(course_of(times, best_s or table.best_s, trials), len(times), seconds)


def course_of(times: Sequence[float], best_s: float, trials: int) -> tuple[float, ...]:
    """The best so far after each of `trials` codes over the best known; where there were fewer, the last stays."""
    course: list[float] = []
    for n in range(trials):
        last = course[-1] if course else inf
        course.append(min(last, times[n] / best_s) if n < len(times) else last)
    return tuple(course)
