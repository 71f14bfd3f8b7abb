"""Many searches on many tables: contestants by name, each with every task and seed, in processes of their own."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.contest.described import Table, described
from benchmarks.contest.models import TRANSFERRED, maker, train_transferred
from benchmarks.contest.playing import TRIALS, Played, play
from benchmarks.contest.stored import FOLDER, load, path_of
from benchmarks.yardstick.samples import sources_hash
from metasched.cost.learning.ranking import Array
from metasched.search.strategy_registry import MakeStrategy

# A table with some of its structures, as a limited space has them.
Limit = Callable[[Table], Table]
_SEARCH = ("metasched/search", "benchmarks/contest")
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Contestant:
    """A way to search: a strategy, a model by its name among `benchmarks.contest.models`, and what it may search.

    `strategy` and `limit` are functions of a module, so that another process finds them.
    """

    name: str
    strategy: MakeStrategy
    model: str = TRANSFERRED
    limit: Limit | None = None


@dataclass(frozen=True)
class Outcome:
    """A search that was played: whose, on which task, by which seed."""

    contestant: str
    task: str
    seed: int
    played: Played


@dataclass(frozen=True)
class Tournament:
    """Who plays, on which tasks, with which seeds, for how many codes.

    `folder` has the tables; in `kept` what was described and played is kept, so that a run goes on where one was ended
    and more seeds cost only themselves.
    """

    contestants: tuple[Contestant, ...]
    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    trials: int = TRIALS
    processes: int = 1
    folder: Path = FOLDER
    kept: Path | None = None

    def outcomes(self) -> Iterator[Outcome]:
        """All searches, as they are done."""
        if self.kept is not None:
            yield from self._outcomes_in(self.kept)
            return
        with TemporaryDirectory() as folder:
            yield from self._outcomes_in(Path(folder))

    def _outcomes_in(self, kept: Path) -> Iterator[Outcome]:
        train_transferred([one.model for one in self.contestants], self.tasks, kept)
        jobs = [
            _Job(one, task, self.seeds, self.trials, self.folder, kept)
            for task in self.tasks
            for one in self.contestants
        ]
        if self.processes == 1:
            for job in jobs:
                yield from _play_job(job)
            return
        with ProcessPoolExecutor(self.processes, multiprocessing.get_context("spawn")) as pool:
            for outcomes in pool.map(_play_job, jobs):
                yield from outcomes


@dataclass(frozen=True)
class _Job:
    """The searches of a contestant on a task."""

    contestant: Contestant
    task: str
    seeds: tuple[int, ...]
    trials: int
    folder: Path
    kept: Path

    @property
    def path(self) -> Path:
        """Where its searches are kept: by all that they depend on."""
        one = self.contestant
        parts = (one, self.task, self.trials, path_of(self.task, self.folder).read_text(encoding="utf-8"), _sources())
        return self.kept / "played" / f"{self.task}-{hashlib.sha256(_text(parts).encode()).hexdigest()[:24]}.jsonl"


def _text(parts: tuple[object, ...]) -> str:
    one, *rest = parts
    assert isinstance(one, Contestant)
    named = [f"{each.__module__}.{each.__qualname__}" for each in (one.strategy, one.limit) if each is not None]
    return repr((one.name, named, one.model, rest))


@cache
def _sources() -> str:
    """A hash of every source that a search depends on."""
    found = hashlib.sha256(sources_hash().encode())
    for folder in _SEARCH:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def _play_job(job: _Job) -> list[Outcome]:
    """All searches of a job, those that were kept among them."""
    known = dict(_read_played(job.path))
    limit = job.contestant.limit
    for seed in job.seeds:
        if seed in known:
            continue
        whole = _table(job.task, job.folder, job.kept)
        space = whole if limit is None else limit(whole)
        model = maker(job.contestant.model, job.task, job.kept)
        known[seed] = play(space, job.contestant.strategy, model, seed, job.trials, whole.best_s)
        _append_played(job.path, seed, known[seed])
    return [Outcome(job.contestant.name, job.task, seed, known[seed]) for seed in job.seeds]


@cache
def _table(task: str, folder: Path, kept: Path) -> Table:
    stored = load(task, folder)
    assert stored is not None, f"there is no table of {task} in {folder}"
    return described(stored, kept)


def _read_played(path: Path) -> Iterable[tuple[int, Played]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            seed, course, codes, seconds = json.loads(line)
            yield seed, Played(tuple(course), codes, seconds)


def _append_played(path: Path, seed: int, played: Played) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps([seed, played.course, played.codes, played.seconds]) + "\n")


def courses_of(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Array]]:
    """The courses of each contestant, of each task as (seeds, trials)."""
    found: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for one in outcomes:
        found.setdefault(one.contestant, {}).setdefault(one.task, []).append(one.played.course)
    return {name: {task: np.array(some) for task, some in tasks.items()} for name, tasks in found.items()}


def seconds_of(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    """The seconds of a core that each contestant's searches took, one after another."""
    found: dict[str, list[float]] = {}
    for one in outcomes:
        found.setdefault(one.contestant, []).append(one.played.seconds)
    return found
