"""Timing again what was disturbed: candidates that took much longer at one moment than at the other.

`python -m benchmarks.yardstick.repeat [--seconds N] [--data FILE]` times such candidates again, once, at two moments,
and those times count, whatever they are. It begins with the pool that has the most, and ends once all were timed or the
time is over. After a change of the code that a family of programs becomes, `--pools GRP C1D` times all candidates of
the pools with such names again. A pool that was disturbed at both moments looks as if it was not: `--lesser` keeps, of
each moment's time and the one before, the lesser. The machine should do nothing else, and be of the kind that the file
was measured on: on another CPU nothing is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import metasched as ms
from benchmarks.yardstick.data import DATA, TimedTask, obstacle_to_adding, read_tasks
from benchmarks.yardstick.samples import sketch_of
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import TimingPlan, median_of
from metasched.support.messages import with_hint

# A candidate is disturbed if one time is so many times the other.
_DISTURBED_RATIO = 1.1
# Pools of which no larger share is disturbed are left as they are.
_MOST_DISTURBED_SHARE = 0.05
# What is kept of a pool's times before, and those taken now.
Keep = Callable[[TimedTask, TimedTask], TimedTask]
_PLAN = TimingPlan(sample_s=1.5e-3, samples=3, budget_s=1e-2, visits=2).without_race()


def disturbed_codes(task: TimedTask) -> list[int]:
    """The positions of the candidates whose two times differ by more than a tenth."""
    times = [(code.first_s, code.second_s) for code in task.codes]
    return [n for n, pair in enumerate(times) if max(pair) > _DISTURBED_RATIO * min(pair)]


def disturbed_share(task: TimedTask) -> float:
    """How many those are of all."""
    return len(disturbed_codes(task)) / max(len(task.codes), 1)


def repeat_codes(task: TimedTask, runner: LocalRunner, again: Sequence[int]) -> TimedTask:
    """The candidates at some positions with new times; one that fails now keeps its times."""
    program = task.program()
    sketches = {number: sketch_of(task, number, program) for number in {task.codes[n].sketch for n in again}}
    traces = [str(sketches[task.codes[n].sketch].trace_of(task.codes[n].row)) for n in again]
    futures = [runner.submit(program, trace, task.target, plan=_PLAN) for trace in traces]
    codes = list(task.codes)
    for n, future in zip(again, futures, strict=True):
        found = future.result()
        if found.failure is None:
            first, second = (median_of([visit]) for visit in found.visits)
            codes[n] = replace(codes[n], first_s=first, second_s=second)
    return replace(task, codes=tuple(codes))


def lesser_times(before: TimedTask, after: TimedTask) -> TimedTask:
    """The candidates, each moment with the lesser of two times: what disturbs a measurement makes it longer."""
    pairs = zip(before.codes, after.codes, strict=True)
    codes = (
        replace(new, first_s=min(old.first_s, new.first_s), second_s=min(old.second_s, new.second_s))
        for old, new in pairs
    )
    return replace(after, codes=tuple(codes))


def newer_times(before: TimedTask, after: TimedTask) -> TimedTask:
    """The candidates with the times that were taken last: those before are of other code."""
    del before
    return after


def write(tasks: Sequence[TimedTask], path: Path) -> None:
    """Write all measurements, so that a run that is ended leaves the file as it was or as it is now."""
    part = path.with_suffix(".part")
    part.write_text("".join(task.dumps() + "\n" for task in tasks), encoding="utf-8")
    part.replace(path)


def repeat_pools(tasks: list[TimedTask], names: Sequence[str], runner: LocalRunner, data: Path, keep: Keep) -> None:
    """Time every candidate of the pools whose names hold one of the texts, and keep what `keep` makes of the times
    before and now."""
    for n, task in enumerate(tasks):
        if any(name in task.spec.name for name in names):
            tasks[n] = keep(task, repeat_codes(task, runner, range(len(task.codes))))
            write(tasks, data)
            changes = [new.first_s / old.first_s for old, new in zip(task.codes, tasks[n].codes, strict=True)]
            print(f"{task.spec.name} ({task.pool}): {statistics.median(changes):.2f} of the time before", flush=True)


def repeat_disturbed(tasks: list[TimedTask], seconds: float, runner: LocalRunner, data: Path) -> None:
    """Time what was disturbed, beginning with the pool that has the most."""
    started = time.perf_counter()
    for n in sorted(range(len(tasks)), key=lambda n: -disturbed_share(tasks[n])):
        before = disturbed_share(tasks[n])
        if before <= _MOST_DISTURBED_SHARE or time.perf_counter() - started > seconds:
            break
        tasks[n] = repeat_codes(tasks[n], runner, disturbed_codes(tasks[n]))
        write(tasks, data)
        after = disturbed_share(tasks[n])
        print(f"{tasks[n].spec.name} ({tasks[n].pool}): {before:.0%} were disturbed, {after:.0%} now", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Time candidates again that were disturbed, or whose code changed.")
    parser.add_argument("--seconds", type=float, default=1800.0, help="end after so long (default: %(default)s)")
    parser.add_argument("--pools", nargs="+", metavar="TEXT", help="all candidates of pools with such names instead")
    parser.add_argument(
        "--lesser", action="store_true", help="with --pools: keep the lesser of each moment's time and the one before"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the file of measurements (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.lesser and not args.pools:
        parser.error(with_hint("--lesser is said of pools that are timed again", "add --pools NAME"))
    tasks = list(read_tasks(args.data))
    if obstacle := obstacle_to_adding(tasks, ms.Target.detect(threads=args.threads)):
        parser.error(f"{args.data}: {obstacle}")
    with LocalRunner(RunnerSettings(threads=args.threads)) as runner:
        if args.pools:
            repeat_pools(tasks, args.pools, runner, args.data, lesser_times if args.lesser else newer_times)
        else:
            repeat_disturbed(tasks, args.seconds, runner, args.data)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
