"""The tuning loop: propose, measure, record, learn.

The database is the only state. Every finished measurement is committed before the next one counts, so a run that is
interrupted or killed goes on where it stopped: proposals depend on the seed and on the recorded times alone, and a
batch that was cut short is proposed again and its rest is measured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from metasched.database.base import Database
from metasched.database.record import Record, TaskKey, code_version
from metasched.errors import ScheduleError
from metasched.ir.program import Program
from metasched.measure.records import Measurement
from metasched.measure.runner import Runner
from metasched.search.phases import Phase, Phases
from metasched.search.progress import Progress, ProgressCallback
from metasched.search.space_protocol import Candidate, Observation, SearchSpace, Strategy


def everything(trace: str) -> bool:
    """Any recorded trace."""
    return True


@dataclass(frozen=True)
class Job:
    """What to tune. `target` is the target's text; `trials` counts all records of the task, failures included.

    Of the records only those count whose trace `belongs`: a search in which decisions are given shares measurements
    with one without, where the traces coincide.
    """

    program: Program
    target: str
    threads: int
    trials: int
    seed: int = 0
    belongs: Callable[[str], bool] = everything

    @property
    def key(self) -> TaskKey:
        return TaskKey(self.program.named_hash(), self.target, self.threads, code_version())


@dataclass(frozen=True)
class Tools:
    """What tuning needs beside the database. Each is opened only if something is left to measure."""

    open_space: Callable[[], SearchSpace]
    open_runner: Callable[[], Runner]
    open_strategy: Callable[[SearchSpace, Phases], Strategy]


@dataclass(frozen=True)
class TuningReport:
    """What came of tuning.

    `best` is None when no candidate was ever valid. `records` and `failures` (by reason) count everything recorded
    of the task, `measured` what this call added. `rejected` counts candidates that turned out illegal before they
    were measured. `exhausted` says that the space held nothing new, `interrupted` that Ctrl-C ended it. `phases`
    are seconds by name, of this call.
    """

    best: Record | None
    records: int
    measured: int
    failures: Mapping[str, int]
    rejected: Mapping[str, int]
    phases: Mapping[str, float]
    elapsed_s: float
    exhausted: bool = False
    interrupted: bool = False

    def __str__(self) -> str:
        """For a person: how much was measured, what failed and why, and where the time went."""
        best = self.best.seconds if self.best is not None else None
        lines = [f"{self.records} records, {self.measured} of them new, in {self.elapsed_s:.1f} s"]
        lines.append("no candidate was valid" if best is None else f"best {best * 1e3:.4g} ms")
        for what, counts in (("failed", self.failures), ("rejected", self.rejected)):
            lines.extend(f"{what} {count} times: {reason}" for reason, count in counts.items())
        if self.phases:
            lines.append("time: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.phases.items()))
        if self.exhausted:
            lines.append("the space holds nothing that was not measured")
        if self.interrupted:
            lines.append("interrupted: the same call goes on from here")
        return "\n".join(lines)


def best_of(records: Sequence[Record]) -> Record | None:
    """The fastest; a median that racing did not cut short goes first."""
    valid = [record for record in records if record.seconds is not None]
    return min(valid, key=lambda record: (record.raced, record.seconds), default=None)


def batch_size(start: int) -> int:
    """How many candidates are proposed at once after `start` records: more of them as there is more to learn from."""
    if start == 0:
        return 16
    return 8 if start < 64 else 16 if start < 256 else 32


def batch_start(records: int) -> int:
    """Where the batch began that the record number `records` belongs to."""
    start = 0
    while start + batch_size(start) <= records:
        start += batch_size(start)
    return start


def tune(job: Job, database: Database, tools: Tools, progress: ProgressCallback | None = None) -> TuningReport:
    """Measure until the task has `job.trials` records, and report the best.

    Nothing that is recorded is measured again; with enough records the call returns at once. On Ctrl-C it
    returns what there is. Anything but a candidate's own failure is raised.
    """
    run = _Run(job, database, tools, progress)
    return run.report() if len(run.records) >= job.trials else run.go()


class _Run:
    def __init__(self, job: Job, database: Database, tools: Tools, progress: ProgressCallback | None) -> None:
        self.job = job
        self.key = job.key
        self.database = database
        self.tools = tools
        self.progress = progress
        self.phases = Phases()
        self.started = time.perf_counter()
        recorded = sorted(database.records(self.key), key=lambda record: record.trial)
        self.records = [record for record in recorded if job.belongs(record.trace)]
        self.others = len(recorded) - len(self.records)
        self.failures = Counter(record.failure for record in self.records if record.failure is not None)
        self.rejected: Counter[str] = Counter()
        self.seconds = {record.trace: record.seconds for record in self.records}
        self.best_s = min((s for s in self.seconds.values() if s is not None), default=None)
        self.measured = 0
        self.first_s = 0.0
        self.exhausted = False
        self.interrupted = False

    def go(self) -> TuningReport:
        runner: Runner | None = None
        try:
            # Workers take a while to start, and do so while the space is made.
            runner = self.tools.open_runner()
            self._search(runner)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if runner is not None:
                runner.close()
        return self.report()

    def report(self) -> TuningReport:
        return TuningReport(
            best=best_of(self.records),
            records=len(self.records),
            measured=self.measured,
            failures=dict(self.failures.most_common()),
            rejected=dict(self.rejected.most_common()),
            phases=self.phases.seconds(),
            elapsed_s=time.perf_counter() - self.started,
            exhausted=self.exhausted,
            interrupted=self.interrupted,
        )

    # --- the loop

    def _search(self, runner: Runner) -> None:
        with self.phases.timed(Phase.SPACE):
            space = self.tools.open_space()
            strategy = self.tools.open_strategy(space, self.phases)
            start = batch_start(len(self.records))
            strategy.observe(self._recorded(space, self.records[:start]))
            pending = self._recorded(space, self.records[start:])
        while len(self.records) < self.job.trials:
            with self.phases.timed(Phase.SCORING):
                proposed = strategy.propose(batch_size(start))
            if not proposed:
                self.exhausted = True
                return
            results = self._measure(runner, space, proposed)
            strategy.observe([*results, *pending])
            start, pending = len(self.records), []

    def _recorded(self, space: SearchSpace, records: Sequence[Record]) -> list[Observation]:
        """Records as observations; those of another space count as trials and teach nothing."""
        located = ((space.locate(record.trace), record.seconds) for record in records)
        return [Observation(candidate, seconds) for candidate, seconds in located if candidate is not None]

    def _measure(self, runner: Runner, space: SearchSpace, proposed: Sequence[Candidate]) -> list[Observation]:
        """Measure what is not recorded yet, within the budget; observations in the order of proposal."""
        traces = [self._trace(space, candidate) for candidate in proposed]
        new = [trace for trace in dict.fromkeys(traces) if trace is not None and trace not in self.seconds]
        new = new[: self.job.trials - len(self.records)]
        with self.phases.timed(Phase.MEASURE):
            futures = [(trace, runner.submit(self.job.program, trace, self.job.target, self.best_s)) for trace in new]
            self._collect(futures)
        out = []
        for candidate, trace in zip(proposed, traces, strict=True):
            if trace is None or trace in self.seconds:
                out.append(Observation(candidate, None if trace is None else self.seconds[trace]))
        return out

    def _trace(self, space: SearchSpace, candidate: Candidate) -> str | None:
        with self.phases.timed(Phase.SPACE):
            try:
                return space.trace(candidate)
            except ScheduleError as error:
                self.rejected[error.reason] += 1
                return None

    def _collect(self, futures: list[tuple[str, Future[Measurement]]]) -> None:
        """Record measurements as they finish. On Ctrl-C, what has finished is recorded and the rest is dropped."""
        try:
            while futures:
                self._record(futures[0][0], futures[0][1].result())
                del futures[0]
        except KeyboardInterrupt:
            for trace, future in futures:
                if not future.cancel() and future.done() and trace not in self.seconds and not future.exception():
                    self._record(trace, future.result())
            raise

    def _record(self, trace: str, measurement: Measurement) -> None:
        failure = measurement.failure.reason if measurement.failure is not None else None
        record = Record(
            task=self.key,
            program=str(self.job.program),
            params=self.job.program.params,
            trace=trace,
            times=measurement.times,
            failure=failure,
            raced=measurement.raced,
            phases=measurement.phases,
            timestamp=time.time(),
            seed=self.job.seed,
            trial=len(self.records) + self.others,
        )
        self.database.add(record)
        self.records.append(record)
        self.seconds[trace] = record.seconds
        self.measured += 1
        if failure is not None:
            self.failures[failure] += 1
        if record.seconds is not None:
            self.best_s = record.seconds if self.best_s is None else min(self.best_s, record.seconds)
        for name, seconds in measurement.phases:
            self.phases.add(Phase.BUILD if name in _BUILDING else Phase.RUN, seconds)
        self._tell()

    def _tell(self) -> None:
        if self.progress is None:
            return
        elapsed = time.perf_counter() - self.started
        total = self.job.trials
        # Starting workers and computing the expected result come once, before the first measurement.
        if self.measured == 1:
            self.first_s = elapsed
        each = (elapsed - self.first_s) / (self.measured - 1) if self.measured > 1 else None
        left = None if each is None else each * (total - len(self.records))
        work = self.job.program.work
        self.progress(
            Progress(
                task=self.job.program.key,
                trials=len(self.records),
                total=total,
                best_s=self.best_s,
                gflops=None if self.best_s is None else work.gflops(self.best_s),
                gops=None if self.best_s is None else work.gops(self.best_s),
                failures=dict(self.failures),
                elapsed_s=elapsed,
                left_s=left,
            )
        )


_BUILDING = frozenset({"replay", "lower", "emit", "compile", "build"})
