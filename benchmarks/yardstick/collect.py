"""Measuring: random candidates of each task, and those near the best known ones of the twelve operators.

`python -m benchmarks.yardstick.collect [--seconds N] [--data FILE] [--near-best | --tensor]` adds to the file of
measurements what is not there yet, and ends once no task is left or the time is over. It takes under an hour in all;
`--tensor` needs a CPU with tensor instructions. The machine should do nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean

import numpy as np

import metasched as ms
from benchmarks.yardstick.data import (
    DATA,
    NEAR_BEST,
    SPACE,
    TENSOR_DATA,
    TimedCode,
    TimedTask,
    append,
    obstacle_to_adding,
    read_tasks,
)
from benchmarks.yardstick.liked import in_turns, liked_candidates
from benchmarks.yardstick.tasks import TaskSpec, tasks
from benchmarks.yardstick.tensor_tasks import tensor_tasks
from metasched.database import TaskKey, open_database
from metasched.errors import ScheduleError
from metasched.measure.records import Lowered, Measurement
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan, median_of
from metasched.operators.matching import fits
from metasched.schedule.handlers import Policy
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.rounds.population import distinct, draw, draw_arms, keys, legal
from metasched.search.space_protocol import Candidate

CODES = 64
# Of the twelve operators, so that a model can be judged that has learned from 64 of them. Slow ones have `CODES`.
MANY_CODES = 160
SLOW_FLOPS = 1e9
NEAR_CODES = 200
_BEST_COUNT = 10
_TRIALS = 64
# Draws that are lowered to find so many distinct codes, as a multiple of it.
_DRAWS = 2
# Structures that are drawn.
_STRUCTURES = 24
_PLAN = TimingPlan(sample_s=1.5e-3, samples=3, budget_s=8e-3, visits=2).without_race()
_NEAR_PLAN = TimingPlan(visits=2).without_race()
# Tile units are shared by the threads of a core: times differ more from moment to moment.
_TENSOR_PLAN = TimingPlan(sample_s=1.2e-3, samples=3, budget_s=8e-3, visits=4).without_race()
_EXPERT = -1

# A candidate of a pool: the number of its sketch, its row, its trace.
_Drawn = tuple[int, tuple[int, ...], str]
_Lowered = tuple[_Drawn, Lowered]


class Collector:
    """Measures tasks one after another with one runner."""

    def __init__(self, runner: LocalRunner, target: ms.Target) -> None:
        self._runner = runner
        self._target = target

    def random(self, spec: TaskSpec, seed: int = 0) -> TimedTask:
        """Random draws of every arm in turns, and the expert traces that apply."""
        program = spec.program()
        space = SpaceArms(ms.space(program, target=self._target), self._target)
        rng = np.random.default_rng(seed)
        count = MANY_CODES if spec.suite is not None and program.work.floats < SLOW_FLOPS else CODES
        numbers = draw_arms(rng, space, _STRUCTURES)
        drawn = in_turns([_drawn_candidates(space, n, draw(rng, space[n], count)) for n in numbers])
        return self._timed_task(spec, program, space, SPACE, drawn[: _DRAWS * count], count, _PLAN)

    def collect_near_best(self, spec: TaskSpec, seed: int = 0) -> TimedTask:
        """One- and two-step mutations of the best that a search found, and those themselves.

        The search and its model decide where the pool is, and no longer what is in it.
        """
        program = spec.program()
        space = SpaceArms(ms.space(program, target=self._target), self._target)
        best = self._best_of_search(program, space, seed)
        rng = np.random.default_rng(seed)
        near = [_drawn_candidates(space, c.arm, _mutations(rng, space, c)) for c in best]
        own = [(c.arm, c.row, space.trace(c)) for c in best]
        return self._timed_task(spec, program, space, NEAR_BEST, [*own, *in_turns(near)], NEAR_CODES, _NEAR_PLAN)

    def collect_tensorized(self, spec: TaskSpec, seed: int = 0) -> TimedTask:
        """Measure candidates with tensor instructions.

        They are those that the installed model and the roofline like, and random ones.
        """
        program = spec.program()
        space = SpaceArms(ms.space(program, target=self._target), self._target)
        found = [(c.arm, c.row, space.trace(c)) for c in liked_candidates(space, np.random.default_rng(seed))]
        return self._timed_task(spec, program, space, SPACE, found, CODES, _TENSOR_PLAN)

    def _best_of_search(self, program: ms.Program, space: SpaceArms, seed: int) -> list[Candidate]:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/records.db"
            ms.tune(program, trials=_TRIALS, db=url, seed=seed, target=self._target)
            with open_database(url) as database:
                records = [r for r in database.records(TaskKey.of(program, self._target)) if r.seconds is not None]
        records.sort(key=lambda record: record.seconds or 0.0)
        found = (space.locate(record.trace) for record in records)
        return [c for c in found if c is not None][:_BEST_COUNT]

    def _timed_task(
        self,
        spec: TaskSpec,
        program: ms.Program,
        space: SpaceArms,
        pool: str,
        drawn: Sequence[_Drawn],
        count: int,
        plan: TimingPlan,
    ) -> TimedTask:
        failures: Counter[str] = Counter()
        experts = list(_experts(program, self._target))
        written = [(_EXPERT - n, (), trace) for n, (_, trace) in enumerate(experts)]
        chosen = self._distinct(program, written, len(experts))
        chosen += self._distinct(program, drawn, count)
        sketches = [str(arm.sketch.trace) for arm in (space[n] for n in range(len(space)))]
        codes: list[TimedCode] = []
        known: dict[str, str] = {}
        for ((arm, row, trace), _), found in zip(chosen, self._measurements(program, chosen, plan), strict=True):
            if found.failure is not None:
                failures[found.failure.reason] += 1
                continue
            if arm < 0:
                known[str(len(codes))] = experts[_EXPERT - arm][0]
                arm = len(sketches)
                sketches.append(trace)
            codes.append(TimedCode(arm, row, *_two_moments([median_of([visit]) for visit in found.visits])))
        return TimedTask(
            spec.operator,
            dict(spec.params),
            spec.text,
            spec.suite,
            spec.family,
            pool,
            str(self._target),
            tuple(sketches),
            tuple(codes),
            known,
            dict(failures),
        )

    def _distinct(self, program: ms.Program, drawn: Sequence[_Drawn], count: int) -> list[_Lowered]:
        """The first `count` whose code is not that of an earlier one; no more are lowered than that takes."""
        by_code: dict[str, _Lowered] = {}
        first = 0
        while len(by_code) < count and first < len(drawn):
            some = drawn[first : first + count - len(by_code)]
            futures = [self._runner.lower(program, trace, str(self._target)) for _, _, trace in some]
            for one, future in zip(some, futures, strict=True):
                lowered = future.result()
                if lowered.code is not None:
                    by_code.setdefault(lowered.code, (one, lowered))
            first += len(some)
        return list(by_code.values())

    def _measurements(self, program: ms.Program, chosen: Sequence[_Lowered], plan: TimingPlan) -> Iterator[Measurement]:
        futures = [
            self._runner.submit(program, trace, str(self._target), lowered=lowered, plan=plan)
            for (_, _, trace), lowered in chosen
        ]
        return (future.result() for future in futures)


def _two_moments(visits: Sequence[float]) -> tuple[float, float]:
    """Times of visits by turns to two moments: of several, their geometric mean."""
    return geometric_mean(visits[::2]), geometric_mean(visits[1::2])


def _drawn_candidates(space: SpaceArms, arm: int, rows: np.ndarray) -> list[_Drawn]:
    found: list[_Drawn] = []
    for row in rows.tolist():
        try:
            found.append((arm, tuple(row), space.trace(Candidate(arm, tuple(row)))))
        except ScheduleError:
            continue  # a row that no constraint refuses and yet is illegal: nothing to measure
    return found


def _mutations(rng: np.random.Generator, space: SpaceArms, candidate: Candidate) -> np.ndarray:
    """Rows one and two mutations away from a candidate, in turns."""
    arm = space.arms[candidate.arm]
    start = np.tile(np.array([candidate.row], dtype=np.int64), (2 * NEAR_CODES, 1))
    once = legal(arm, arm.mutate(rng, start))
    twice = legal(arm, arm.mutate(rng, once))
    count = min(len(once), len(twice))
    return distinct(np.stack([once[:count], twice[:count]], axis=1).reshape(2 * count, -1), keys(start[:1]))


def _experts(program: ms.Program, target: ms.Target) -> Iterator[tuple[str, str]]:
    """The expert traces that can be replayed on a program, by name."""
    for fit in fits(program):
        try:
            schedule = fit.trace_for(program, target.threads).apply_to(program, Policy.REPAIR)
        except ScheduleError:
            continue  # written for other sizes: it does not apply here
        yield fit.expert.name, str(schedule.trace)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what the yardstick lacks.")
    parser.add_argument("--seconds", type=float, default=3600.0, help="end after so long (default: %(default)s)")
    parser.add_argument("--data", type=Path, help=f"the file to add to (default: {DATA}, or {TENSOR_DATA})")
    pools = parser.add_mutually_exclusive_group()
    pools.add_argument("--near-best", action="store_true", help="the pools near the best of the twelve operators")
    pools.add_argument("--tensor", action="store_true", help="candidates with tensor instructions")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    started, target = time.perf_counter(), ms.Target.detect(threads=args.threads)
    pool = NEAR_BEST if args.near_best else SPACE
    data = args.data or (TENSOR_DATA if args.tensor else DATA)
    there = list(read_tasks(data))
    if obstacle := obstacle_to_adding(there, target):
        parser.error(f"{data}: {obstacle}")
    done = {(task.spec.name, task.pool) for task in there}
    every = tensor_tasks() if args.tensor else tasks()
    wanted = [spec for spec in every if spec.suite is not None or not args.near_best]
    left = [spec for spec in wanted if (spec.name, pool) not in done]
    with LocalRunner(RunnerSettings(threads=args.threads)) as runner:
        collector = Collector(runner, target)
        measure = collector.random
        if args.near_best or args.tensor:
            measure = collector.collect_near_best if args.near_best else collector.collect_tensorized
        for n, spec in enumerate(left):
            if time.perf_counter() - started > args.seconds:
                print(f"{len(left) - n} tasks are left")
                return 1
            begun = time.perf_counter()
            found = measure(spec)
            append(found, data)
            print(f"{spec.name}: {len(found.codes)} codes in {time.perf_counter() - begun:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
