"""The contest on the machine itself: a few ways to search tune the twelve operators, with the same seeds.

What a search had found after so many trials, and
after as many seconds as the quickest of them took for all of its trials, is timed once more, in turns with what the
others had found; ratios are to the fastest of these.

Where a folder is given, searches are kept in it, and what was timed in turns: a run that was ended goes on, and one
with another way more searches by that one alone, and times all in turns anew. A folder is of one commit and machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import astuple, dataclass, replace
from itertools import accumulate
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np

import metasched as ms
from benchmarks.contest.figures import LOOKS, NEAR_RATIO, interval, mean_at, median_or_beyond, ratio_to_other
from benchmarks.registry import Options, Result
from metasched.cost.learning.ranking import Array
from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel, model_of
from metasched.database import TaskKey, open_database
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import median_of
from metasched.operators import TWELVE
from metasched.search.strategy_registry import DEFAULT_STRATEGY, MakeStrategy
from metasched.space.conditions import SpaceLike

SEEDS = 5
_QUICK_TRIALS = 8
_PLAN = replace(IN_TURNS, samples=2, visits=6)
_UNTIL_KEY = f"trials_until_{NEAR_RATIO:g}"
# What is no part of a file name.
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9-]+")


@dataclass(frozen=True)
class Trial:
    """A trial of a search: its trace, its time (None for a failure), and when it was recorded, in seconds since the
    search began."""

    trace: str
    seconds: float | None
    at: float


@dataclass(frozen=True)
class Search:
    """A search that is over: its trials in order, and when it was over, in seconds since it began."""

    trials: tuple[Trial, ...]
    seconds: float

    def best_after(self, trials: int) -> str | None:
        """The trace of the fastest of its first trials; None where none of them has a time."""
        timed = [trial for trial in self.trials[:trials] if trial.seconds is not None]
        return min(timed, key=lambda trial: trial.seconds or inf).trace if timed else None

    def trials_within(self, seconds: float) -> int:
        """How many trials it had made by then, one at least."""
        return max(1, sum(trial.at <= seconds for trial in self.trials))

    def trials_until(self, over: float, near: float = NEAR_RATIO) -> float:
        """How many trials it took to come so near to the best known; infinite where it did not.

        `over` is what it found in all, over that, as timed in turns; what it had before is told by its own times.
        """
        found = list(accumulate((trial.seconds or inf for trial in self.trials), min))
        return next((n for n, best in enumerate(found, 1) if best / found[-1] * over <= near), inf)

    def dumps(self) -> str:
        return json.dumps([self.seconds, [astuple(trial) for trial in self.trials]])

    @staticmethod
    def loads(text: str) -> Search:
        seconds, trials = json.loads(text)
        return Search(tuple(Trial(*trial) for trial in trials), seconds)


class Searches(Protocol):
    """What searches a task: `key` tells apart, among what is kept under one name, what searches otherwise."""

    @property
    def key(self) -> str: ...

    def search(self, name: str, target: ms.Target, runner: LocalRunner, seed: int, trials: int) -> Search:
        """The search of one of the twelve, by its name."""


@dataclass(frozen=True)
class Way:
    """A way to search a task: a strategy in a space, by default that of all rules, which `space_of` gives for a program
    and a target. Without a `guess` it begins with nothing that is known. `model_of` gives what makes the model for an
    operator of the twelve, by default the one that is installed.
    """

    strategy: str | MakeStrategy = DEFAULT_STRATEGY
    space_of: Callable[[ms.Program, ms.Target], SpaceLike] = lambda program, target: None
    guess: bool = True
    model_of: Callable[[str], MakeModel] = lambda name: model_of(DEFAULT_MODEL)

    @property
    def key(self) -> str:
        return "guess" if self.guess else "nothing"

    def search(self, name: str, target: ms.Target, runner: LocalRunner, seed: int, trials: int) -> Search:
        task = self.task(TWELVE[name].program(), target)
        return search(task, runner, self, self.model_of(name), seed, trials)

    def task(self, program: ms.Program, target: ms.Target) -> ms.Task:
        known = None if self.guess else "none"
        return ms.Task(program, self.space_of(program, target), target, knowledge=known)


def search(task: ms.Task, runner: LocalRunner, way: Way, model: MakeModel, seed: int, trials: int) -> Search:
    """Tune a task from nothing, by a model."""
    began, start = time.time(), time.perf_counter()
    with open_database("sqlite:///:memory:") as database:
        with ms.TuningSession(
            [task],
            db=database,
            runner=runner,
            strategy=way.strategy,
            model=model,
            seed=seed,
            progress=False,
            guess=way.guess,
        ) as session:
            session.run(trials)
            seconds = time.perf_counter() - start
        key = TaskKey.of(task.program, task.target, task.surroundings)
        records = sorted((r for r in database.records(key) if r.trial >= 0), key=lambda record: record.trial)
    # A record that is timed again keeps the time of its first.
    at = accumulate((record.timestamp - began for record in records), max)
    return Search(tuple(Trial(r.trace, r.seconds, when) for r, when in zip(records, at, strict=True)), seconds)


def live(ways: Mapping[str, Searches], baseline: str, options: Options) -> Iterator[Result]:
    """A line for each task and seed, and one for each way, over all of them, compared with that of the baseline.

    No search is begun after the seconds of the options, if they say so many: the lines are those that are complete.
    """
    trials = _QUICK_TRIALS if options.quick else options.trials
    looks = [codes for codes in LOOKS if codes < trials] + [trials]
    seeds = options.seeds or tuple(range(1 if options.quick else SEEDS))
    until = inf if options.seconds is None else time.perf_counter() + options.seconds
    lines: list[Result] = []
    with ExitStack() as opened:
        folder = options.kept or Path(opened.enter_context(TemporaryDirectory()))
        runner = opened.enter_context(LocalRunner(RunnerSettings(threads=options.threads)))
        for seed in seeds:
            for n, name in enumerate(options.only or tuple(TWELVE)):
                # Whoever is first finds a machine that has rested.
                turn = (n + seed) % len(ways)
                turned = dict([*ways.items()][turn:] + [*ways.items()][:turn])
                one = _Comparison(name, seed, looks, ms.Target.detect(threads=options.threads), runner, folder)
                line = one.line(turned, until)
                if line is not None:
                    lines.append(line)
                    yield line
    yield from summary(lines, baseline)


@dataclass(frozen=True)
class _Comparison:
    """The searches of a task with a seed, by several ways."""

    name: str
    seed: int
    looks: Sequence[int]
    target: ms.Target
    runner: LocalRunner
    folder: Path

    @property
    def program(self) -> ms.Program:
        return TWELVE[self.name].program()

    def line(self, ways: Mapping[str, Searches], until: float) -> Result | None:
        """What was found; None where the time is over before all have searched."""
        searches: dict[str, Search] = {}
        for each, way in ways.items():
            found = self._search(each, way, until)
            if found is None:
                return None
            searches[each] = found
        least = min(one.trials[-1].at for one in searches.values())
        found_at = {each: self._found_traces(one, least) for each, one in searches.items()}
        traces = {trace for looks in found_at.values() for trace in looks.values() if trace is not None}
        seconds = self._in_turns(traces, until)
        if seconds is None:
            return None
        known = min(seconds.values())
        over = {
            each: {look: inf if trace is None else seconds[trace] / known for look, trace in of_one.items()}
            for each, of_one in found_at.items()
        }
        in_all = f"at_{self.looks[-1]}"
        return {
            "case": f"{self.name}, seed {self.seed}",
            "task": self.name,
            "seed": self.seed,
            "best_ms": known * 1e3,
            "over_best": over,
            _UNTIL_KEY: {each: one.trials_until(over[each][in_all]) for each, one in searches.items()},
            "equal_seconds": least,
            "search_s": {each: one.seconds for each, one in searches.items()},
            "trials_in_equal_seconds": {each: one.trials_within(least) for each, one in searches.items()},
        }

    def _found_traces(self, one: Search, least: float) -> dict[str, str | None]:
        found = {f"at_{trials}": one.best_after(trials) for trials in self.looks}
        return {**found, "at_equal_seconds": one.best_after(one.trials_within(least))}

    def _search(self, name: str, way: Searches, until: float) -> Search | None:
        """The search of a way, which is kept; None where it was not made, and the time is over."""
        path = self._path(f"{name}-{way.key}-{self.looks[-1]}")
        if path.exists():
            return Search.loads(path.read_text(encoding="utf-8"))
        if time.perf_counter() >= until:
            return None
        found = way.search(self.name, self.target, self.runner, self.seed, self.looks[-1])
        _write(path, found.dumps())
        return found

    def _in_turns(self, traces: Set[str], until: float) -> dict[str, float] | None:
        """Seconds of each trace, infinite for one that does not run again; None where the time is over."""
        path = self._path("turns-" + hashlib.sha256("".join(sorted(traces)).encode()).hexdigest()[:16])
        if path.exists():
            kept: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
            return kept
        if time.perf_counter() >= until:
            return None
        seconds = _time_traces(self.runner, self.program, self.target, traces)
        _write(path, json.dumps(seconds))
        return seconds

    def _path(self, what: str) -> Path:
        return self.folder / "live" / f"{self.name}-{self.seed}-{_UNSAFE_CHARACTERS.sub('_', what)}.json"


def _time_traces(runner: LocalRunner, program: ms.Program, target: ms.Target, traces: Set[str]) -> dict[str, float]:
    """Seconds of each trace, all timed in turns; infinite for one that does not run again."""
    futures = {trace: runner.submit(program, trace, str(target), plan=_PLAN) for trace in sorted(traces)}
    visits = {trace: future.result().visits for trace, future in futures.items()}
    return {trace: median_of(found) if found else inf for trace, found in visits.items()}


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def summary(lines: Sequence[Result], baseline: str) -> Iterator[Result]:
    """A line for each way, over tasks and seeds, and how it compares with the baseline."""
    over: dict[str, dict[str, dict[str, list[float]]]] = {}
    took: dict[str, list[float]] = {}
    until: dict[str, list[float]] = {}
    for line in lines:
        of_strategies: Mapping[str, Mapping[str, float]] = line["over_best"]  # type: ignore[assignment]
        spent: Mapping[str, float] = line["search_s"]  # type: ignore[assignment]
        for name, looks in of_strategies.items():
            took.setdefault(name, []).append(spent[name])
            until.setdefault(name, []).append(line[_UNTIL_KEY][name])  # type: ignore[index]
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
                found[f"{look}_over_{baseline}"] = ratio_to_other(mine, _columns(over[baseline][look]), 1)
        found[_UNTIL_KEY] = median_or_beyond(until[name])
        found["search_s"] = float(np.mean(took[name]))
        yield found


def _columns(of_tasks: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    """Ratios of each task's seeds as courses of one code."""
    return {task: np.array(ratios)[:, None] for task, ratios in of_tasks.items()}
