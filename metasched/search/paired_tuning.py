"""Tuning one program in two spaces at once, batch by batch in turns, so that what disturbs the machine hits both."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache

from metasched.database.base import Database
from metasched.ir.program import Program
from metasched.measure.records import Lowered, Measurement
from metasched.measure.runner import Runner
from metasched.measure.timing import TimingPlan
from metasched.search.progress import Progress, ProgressCallback
from metasched.search.report import TuningReport
from metasched.search.space_protocol import SearchSpace
from metasched.search.tune import Job, Tools, batch_size, tune


@dataclass(frozen=True)
class Side:
    """One of the searches: its name, its job, its tools, and where its records go: those of two sides must not mix.

    Each has a runner of its own, as a runner lets candidates race against the best that it has seen.
    """

    name: str
    job: Job
    database: Database
    tools: Tools


def tune_in_turns(
    sides: tuple[Side, ...], progress: Callable[[str], ProgressCallback] | None = None
) -> tuple[TuningReport, ...]:
    """Tune each side with its number of trials, and report each. Only one of them measures at a time.

    `progress` gives what is called after each measurement, by the side's name. Ctrl-C ends all of them.
    """
    with ExitStack() as stack:
        return _tune(tuple(replace(side, tools=_kept(side.tools, stack)) for side in sides), progress)


def _tune(sides: tuple[Side, ...], progress: Callable[[str], ProgressCallback] | None) -> tuple[TuningReport, ...]:
    reports: dict[str, TuningReport] = {}
    done = 0
    while not reports or (done < max(side.job.trials for side in sides) and not _ended(reports)):
        done += batch_size(done)
        for side in sides:
            job = replace(side.job, trials=min(done, side.job.trials))
            # The best are timed again when all trials are made.
            tools = side.tools if done >= side.job.trials else replace(side.tools, finals=None)
            tell = None if progress is None else _towards(side.job.trials, progress(side.name))
            reports[side.name] = tune(job, side.database, tools, tell)
            if reports[side.name].interrupted:
                break
    for side in sides:  # one that was never begun, as another was interrupted
        reports.setdefault(side.name, tune(replace(side.job, trials=0), side.database, side.tools))
    return tuple(reports[side.name] for side in sides)


def _ended(reports: dict[str, TuningReport]) -> bool:
    return any(r.interrupted for r in reports.values()) or all(r.exhausted for r in reports.values())


def _towards(total: int, tell: ProgressCallback) -> ProgressCallback:
    def told(progress: Progress) -> None:
        left = None if progress.left_s is None or progress.trials < total else progress.left_s
        tell(replace(progress, total=total, left_s=left))

    return told


@dataclass(frozen=True)
class _Shared:
    """A runner for all batches of a side."""

    runner: Runner

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        return self.runner.lower(program, trace, target)

    def submit(
        self,
        program: Program,
        trace: str,
        target: str,
        best_s: float | None = None,
        *,
        lowered: Lowered | None = None,
        plan: TimingPlan | None = None,
    ) -> Future[Measurement]:
        return self.runner.submit(program, trace, target, best_s, lowered=lowered, plan=plan)

    def close(self) -> None:
        """There are more batches; at the end it is closed."""


def _kept(tools: Tools, stack: ExitStack) -> Tools:
    """The same tools, opened once; `stack` closes them."""
    space: Callable[[], SearchSpace] = cache(tools.open_space)

    @cache
    def runner() -> _Shared:
        opened = tools.open_runner()
        stack.callback(opened.close)
        return _Shared(opened)

    return replace(tools, open_space=space, open_runner=runner)
