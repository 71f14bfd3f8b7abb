"""Task schedulers: how many trials each takes until the kernels of a network are as fast as by the other.

Each scheduler tunes a network from nothing, with the same seed and as many trials (`--trials`, of all tasks together),
one after the other. Which reductions are computed together in strips is timed before, once for both, so that their
tasks are the same. After each trial the time of the network's kernels is the sum of each task's best so
far, as often as it runs; a task that was not measured yet counts with its first measurement, its guess, in whichever
run has one. What round robin has gained over the guesses in the end, a half, three quarters and nine tenths of it are
the times to reach; `ratio` is round robin's trials over the gradient's, and the peer's figures are round robin's.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import metasched as ms
from benchmarks.networks import Case, network_cases
from benchmarks.registry import Options, Result
from metasched.graph.network import Network
from metasched.graph.network_of_sizes import NetworkOfSizes
from metasched.graph.tuning.view import NetworkProgress

GRADIENT, ROUND_ROBIN = "gradient", "round_robin"
# Shares of what round robin has gained in the end.
SHARES = (0.5, 0.75, 0.9, 1.0)
_QUICK_TRIALS = 8
# More groups of reductions than any network has.
_EVERY_GROUP = 10_000


@dataclass(frozen=True)
class Course:
    """How a network was tuned.

    Attributes:
        best: after each trial, the best seconds of the tasks that were measured, by their keys.
        seconds: how long it took.
    """

    best: tuple[Mapping[str, float], ...]
    seconds: float

    @property
    def first(self) -> Mapping[str, float]:
        """The first measurement of each task: its guess."""
        found: dict[str, float] = {}
        for known in self.best:
            found = {**known, **found}
        return found


def run(options: Options) -> Iterator[Result]:
    """A line for each network, seed and time to reach."""
    trials = _QUICK_TRIALS if options.quick else options.trials
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.kept or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for case in network_cases(options, folder):
            for seed in options.seeds or (0,):
                yield from _compare_schedulers(case, options.threads, trials, seed)


def _compare_schedulers(case: Case, threads: int, trials: int, seed: int) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        settled = Path(folder) / "settled.db"
        network = _load_network(case, threads)
        for member in network.members:
            member.settle_strips(f"sqlite:///{settled}", most=_EVERY_GROUP)
        weights = {row.task.key: row.weight for row in network.tasks().rows}
        courses = {name: _tune_network(case, threads, trials, seed, name, settled) for name in (GRADIENT, ROUND_ROBIN)}
    first = _guesses(list(courses.values()))
    totals = {name: kernel_seconds(course, first, weights) for name, course in courses.items()}
    for share in SHARES:
        goal = goal_seconds(totals[ROUND_ROBIN], share)
        ours, theirs = (trials_until(totals[name], goal) for name in (GRADIENT, ROUND_ROBIN))
        yield {
            "case": f"{case.name}, {share:.0%} of round robin's gain",
            "seed": seed,
            "trials": trials,
            "goal_ms": goal * 1e3,
            "ours_trials": ours,
            "peer": ROUND_ROBIN,
            "peer_trials": theirs,
            "ratio": None if ours is None or theirs is None else theirs / max(ours, 1),
        }
    yield {
        "case": f"{case.name}, in the end",
        "seed": seed,
        "trials": trials,
        "guess_ms": totals[GRADIENT][0] * 1e3,
        "ours_ms": totals[GRADIENT][-1] * 1e3,
        "peer": ROUND_ROBIN,
        "peer_ms": totals[ROUND_ROBIN][-1] * 1e3,
        "ratio": totals[ROUND_ROBIN][-1] / totals[GRADIENT][-1],
        "seconds": courses[GRADIENT].seconds,
        "peer_seconds": courses[ROUND_ROBIN].seconds,
    }


def _load_network(case: Case, threads: int) -> Network | NetworkOfSizes:
    sizes: dict[str, Any] = dict(case.sizes)
    network: Network | NetworkOfSizes = ms.load_onnx(case.model, target=ms.Target.detect(threads=threads), **sizes)
    return network


def _tune_network(case: Case, threads: int, trials: int, seed: int, scheduler: str, settled: Path) -> Course:
    """Tune a network by a scheduler, from a database that says which reductions are computed together."""
    network = _load_network(case, threads)
    seen: list[tuple[Mapping[str, float], float]] = []

    def note(now: NetworkProgress) -> None:
        best = {row.task.key: row.best_s for row in now.table.rows if row.best_s is not None}
        seen.extend([(best, now.elapsed_s)] * (now.trials - len(seen)))

    own = settled.with_name(f"{scheduler}.db")
    shutil.copyfile(settled, own)
    network.tune(trials, f"sqlite:///{own}", scheduler=scheduler, seed=seed, progress=note)
    return Course(tuple(best for best, _ in seen), seen[-1][1])


def _guesses(courses: Sequence[Course]) -> dict[str, float]:
    """The least first measurement of each task."""
    found: dict[str, float] = {}
    for course in courses:
        for key, seconds in course.first.items():
            found[key] = min(seconds, found.get(key, seconds))
    return found


def kernel_seconds(course: Course, first: Mapping[str, float], weights: Mapping[str, float]) -> list[float]:
    """Seconds of all kernels of a call: by guesses alone, and after each trial."""
    known = ({}, *course.best)
    return [sum(weights[key] * min(best.get(key, guess), guess) for key, guess in first.items()) for best in known]


def goal_seconds(totals: Sequence[float], share: float) -> float:
    """Where a share of what was gained in the end is gained."""
    return totals[0] - share * (totals[0] - totals[-1])


def trials_until(totals: Sequence[float], goal: float) -> int | None:
    """After how many trials the kernels take no longer than a goal; None where they always do."""
    return next((trials for trials, seconds in enumerate(totals) if seconds <= goal), None)
