"""The contest on the machine itself: a few ways to search tune the twelve operators, with the same seeds.

What a search had found after so many trials, and
after as many seconds as the quickest of them took for all of its trials, is timed once more, in turns with what the
others had found; ratios are to the fastest of these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf

import numpy as np

import metasched as ms
from benchmarks.contest.figures import LOOKS, against, interval, mean_at
from benchmarks.registry import Options, Result
from metasched.cost.ranking import Array
from metasched.database import Record, TaskKey, open_database
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import median_of
from metasched.operators import TWELVE
from metasched.search.strategy import DEFAULT_STRATEGY, MakeStrategy
from metasched.space.conditions import SpaceLike

SEEDS = 5
_QUICK_TRIALS = 8
_PLAN = replace(IN_TURNS, samples=2, visits=6)


@dataclass(frozen=True)
class Search:
    """A search that is over: its trials in order, when each was recorded, and when it was over, in seconds since it
    began."""

    records: tuple[Record, ...]
    at: tuple[float, ...]
    seconds: float

    def best_after(self, trials: int) -> Record | None:
        """The fastest of its first trials; None where none of them has a time."""
        timed = [record for record in self.records[:trials] if record.seconds is not None]
        return min(timed, key=lambda record: record.seconds or inf, default=None)

    def trials_within(self, seconds: float) -> int:
        """How many trials it had made by then, one at least."""
        return max(1, sum(at <= seconds for at in self.at))


@dataclass(frozen=True)
class Way:
    """A way to search a task: a strategy in a space, by default that of all rules, which `space_of` gives for a program
    and a target. Without a `guess` it begins with nothing that is known."""

    strategy: str | MakeStrategy = DEFAULT_STRATEGY
    space_of: Callable[[ms.Program, ms.Target], SpaceLike] = lambda program, target: None
    guess: bool = True

    def task(self, program: ms.Program, target: ms.Target) -> ms.Task:
        known = None if self.guess else "none"
        return ms.Task(program, self.space_of(program, target), target, knowledge=known)


def search(task: ms.Task, runner: LocalRunner, way: Way, seed: int, trials: int) -> Search:
    """Tune a task from nothing."""
    began, start = time.time(), time.perf_counter()
    with open_database("sqlite:///:memory:") as database:
        with ms.TuningSession(
            [task], db=database, runner=runner, strategy=way.strategy, seed=seed, progress=False, guess=way.guess
        ) as session:
            session.run(trials)
            seconds = time.perf_counter() - start
        key = TaskKey.of(task.program, task.target, task.surroundings)
        records = sorted((r for r in database.records(key) if r.trial >= 0), key=lambda record: record.trial)
    # A record that is timed again keeps the time of its first.
    at = accumulate((record.timestamp - began for record in records), max)
    return Search(tuple(records), tuple(at), seconds)


def live(ways: Mapping[str, Way], baseline: str, options: Options) -> Iterator[Result]:
    """A line for each task and seed, and one for each way, over all of them, compared with that of the baseline."""
    trials = _QUICK_TRIALS if options.quick else options.trials
    looks = [codes for codes in LOOKS if codes < trials] + [trials]
    seeds = options.seeds or tuple(range(1 if options.quick else SEEDS))
    lines: list[Result] = []
    with LocalRunner(RunnerSettings(threads=options.threads)) as runner:
        for seed in seeds:
            for n, name in enumerate(options.only or tuple(TWELVE)):
                # Whoever is first finds a machine that has rested.
                turn = (n + seed) % len(ways)
                turned = dict([*ways.items()][turn:] + [*ways.items()][:turn])
                lines.append(_compared(name, turned, runner, seed, looks, options.threads))
                yield lines[-1]
    yield from summary(lines, baseline)


def _compared(
    name: str, ways: Mapping[str, Way], runner: LocalRunner, seed: int, looks: Sequence[int], threads: int
) -> Result:
    program, target = TWELVE[name].program(), ms.Target.detect(threads=threads)
    searches = {each: search(way.task(program, target), runner, way, seed, looks[-1]) for each, way in ways.items()}
    least = min(one.at[-1] for one in searches.values())
    found = {
        each: {
            **{f"at_{trials}": one.best_after(trials) for trials in looks},
            "at_equal_seconds": one.best_after(one.trials_within(least)),
        }
        for each, one in searches.items()
    }
    traces = {record.trace for of_one in found.values() for record in of_one.values() if record is not None}
    seconds = _in_turns(program, target, runner, traces)
    known = min(seconds.values())
    return {
        "case": f"{name}, seed {seed}",
        "task": name,
        "seed": seed,
        "best_ms": known * 1e3,
        "over_best": {
            each: {look: inf if r is None else seconds[r.trace] / known for look, r in of_one.items()}
            for each, of_one in found.items()
        },
        "equal_seconds": least,
        "search_s": {each: one.seconds for each, one in searches.items()},
        "trials_in_equal_seconds": {each: one.trials_within(least) for each, one in searches.items()},
    }


def _in_turns(program: ms.Program, target: ms.Target, runner: LocalRunner, traces: Set[str]) -> dict[str, float]:
    """Seconds of each trace; infinite for one that does not run again."""
    futures = {t: runner.submit(program, t, str(target), plan=_PLAN) for t in sorted(traces)}
    visits = {trace: future.result().visits for trace, future in futures.items()}
    return {trace: median_of(found) if found else inf for trace, found in visits.items()}


def summary(lines: Sequence[Result], baseline: str) -> Iterator[Result]:
    """A line for each way, over tasks and seeds, and how it compares with the baseline."""
    over: dict[str, dict[str, dict[str, list[float]]]] = {}
    took: dict[str, list[float]] = {}
    for line in lines:
        of_strategies: Mapping[str, Mapping[str, float]] = line["over_best"]  # type: ignore[assignment]
        spent: Mapping[str, float] = line["search_s"]  # type: ignore[assignment]
        for name, looks in of_strategies.items():
            took.setdefault(name, []).append(spent[name])
            for look, ratio in looks.items():
                over.setdefault(name, {}).setdefault(look, {}).setdefault(str(line["task"]), []).append(ratio)
    for name, by_look in over.items():
        found: Result = {"case": f"live, {name}", "tasks": len(next(iter(by_look.values())))}
        found["seeds"] = min(map(len, next(iter(by_look.values())).values()))
        for look, of_tasks in by_look.items():
            mine = _columns(of_tasks)
            found[look] = mean_at(mine, 1)
            found[f"{look}_interval"] = interval(mine, 1)
            if baseline in over:
                found[f"{look}_over_{baseline}"] = against(mine, _columns(over[baseline][look]), 1)
        found["search_s"] = float(np.mean(took[name]))
        yield found


def _columns(of_tasks: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    """Ratios of each task's seeds as courses of one code."""
    return {task: np.array(ratios)[:, None] for task, ratios in of_tasks.items()}
