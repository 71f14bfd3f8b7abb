"""Measuring candidates on this machine: builders compile side by side, then one runner checks and times alone."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import statistics
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from metasched.errors import ResourceError
from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.measure.archive import write_arrays
from metasched.measure.arithmetic import AS_WRITTEN, AllowedArithmetic, arithmetic_of
from metasched.measure.inputs import Inputs, given_inputs
from metasched.measure.process import WorkerLost, WorkerProcess, WorkerRole, WorkerSpec, WorkerUsage
from metasched.measure.protocol import Message, MessageKind
from metasched.measure.quiet import TimingTurns
from metasched.measure.recently_built import RecentlyBuilt
from metasched.measure.records import (
    CheckError,
    Failure,
    Limits,
    Lowered,
    MeasureCandidate,
    Measurement,
    Reason,
    RunnerClosed,
    WorkerBug,
)
from metasched.measure.resources import explaining
from metasched.measure.temporary import TemporaryFolder, remove_abandoned
from metasched.measure.timing import LEAST_VISITS, Times, TimingPlan, is_clearly_slower, median_of
from metasched.measure.tolerance import divides
from metasched.support.cached import cached_property

WORKER_MODULE = "metasched.measure.worker"
_PREPARATIONS = 3  # how often an expected result is asked for whose worker dies
_MAX_BATCH = 64  # candidates built before the first of them runs: their machine code is held meanwhile


class Runner(Protocol):
    """Measures candidates, here or elsewhere.

    `trace` and `target` are texts. A future gives the result of a candidate, or its failure; it raises `WorkerBug`
    when measuring itself is at fault, and `ResourceError` when the machine denies what it needs.
    """

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        """Lower a candidate as far as its code, which takes a tenth of the time of measuring it."""
        ...

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
        """Check and time a candidate, starting from the result of `lower` if that is given.

        It races against `best_s`, the best time known, and those submitted with the same `plan`. Those submitted
        together are visited in turns.
        """
        ...

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        """Begin to compute what the candidates of a program will be checked against, on data of these `inputs`.

        It is optional, and saves waiting later.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class RunnerSettings:
    """How a `LocalRunner` works: `threads` is the most that a target may ask for, `seed` that of the data."""

    threads: int
    builders: int = field(default_factory=lambda: max(1, min(8, len(os.sched_getaffinity(0)))))
    limits: Limits = Limits()
    plan: TimingPlan = TimingPlan()
    seed: int = 0
    worker: str = WORKER_MODULE


_Key = tuple[str, tuple[tuple[str, Setting], ...]]  # a program's text and parameters


@dataclass
class _Job:
    """A candidate on its way. Phases are seconds by name, `prologues` those of what is run once, of each visit."""

    program: Program
    candidate: MeasureCandidate
    future: Future[Measurement]
    best_s: float | None
    plan: TimingPlan
    phases: dict[str, float]
    lowered: Lowered | None = None
    failure: Failure | None = None
    artefact: Message | None = None
    visits: list[Times] = field(default_factory=list)
    visited_at: float = 0.0
    prologues: list[float] = field(default_factory=list)

    @cached_property
    def arithmetic(self) -> AllowedArithmetic:
        """How its results are computed; it is known to be as written where nothing that counts is in the program."""
        found = arithmetic_of(self.candidate.trace)
        return found if found.steps or divides(self.program.func) else AS_WRITTEN

    @property
    def task(self) -> tuple[Any, ...]:
        """What candidates that race must have in common."""
        return self.candidate.program, self.candidate.params, self.candidate.target, self.plan

    def count(self, phases: Mapping[str, float]) -> None:
        for name, seconds in phases.items():
            self.phases[name] = self.phases.get(name, 0.0) + seconds

    def finish(self, raced: bool = False) -> None:
        code = None
        if self.artefact is not None:
            code = str(self.artefact.body["code"])
        elif self.lowered is not None:
            code = self.lowered.code
        visits = () if self.failure is not None else tuple(self.visits)
        phases = tuple(self.phases.items())
        self.artefact = self.lowered = None
        prologue = statistics.median(self.prologues) if visits and self.prologues else None
        self.future.set_result(Measurement(self.candidate, visits, raced, self.failure, phases, code, prologue))


class LocalRunner:
    """A `Runner` in worker processes of its own, which start at once and end with it, or with this process.

    Candidates submitted together are built together, on `builders` processes; once nothing is left to build, they
    run one after another while nothing else does, and then all of them again (see `TimingPlan`). `inputs` says what
    data arguments take, by name: an array, a range (low, high), or a function of (generator, shape, dtype). May be
    used from any thread.

    Making one also removes what earlier ones left in the folder for temporary files, when they were killed. Raises
    ResourceError when the machine denies a folder or a process.
    """

    def __init__(self, settings: RunnerSettings, inputs: Inputs | None = None) -> None:
        self._settings = settings
        self._inputs = inputs
        remove_abandoned()
        folder = TemporaryFolder()
        self._folder = folder.path
        self._cleanup = weakref.finalize(self, folder.close)
        # Workers are the children of this thread, and the kernel ends them when it ends.
        self._spawner = ThreadPoolExecutor(1, "metasched-spawn")
        self._builders = [self._worker(WorkerRole.BUILDER, f"builder-{n}") for n in range(settings.builders)]
        self._runner = self._worker(WorkerRole.RUNNER, "runner")
        self._idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        for builder in self._builders:
            self._idle.put(builder)
        self._building = ThreadPoolExecutor(settings.builders, "metasched-build")
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._given: dict[_Key, Inputs | None] = {}
        self._data: dict[tuple[_Key, AllowedArithmetic], Future[Path]] = {}
        self._best: dict[tuple[Any, ...], float] = {}
        self._built = RecentlyBuilt()
        self._turns = TimingTurns()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._coordinator = threading.Thread(target=self._coordinate, name="metasched-measure", daemon=True)
        try:
            with explaining("starting workers"):
                for worker in (*self._builders, self._runner):
                    worker.start()
                self._coordinator.start()
        except BaseException:
            self.close()
            raise

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        """The code of one candidate, on whichever builder is free."""
        candidate = MeasureCandidate(str(program), program.params, trace, target)
        with self._lock:
            self._refuse_if_closed()
            return self._building.submit(self._lower, candidate)

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
        """Measure one candidate. `best_s` is the best time known, against which it races."""
        candidate = MeasureCandidate(str(program), program.params, trace, target)
        future: Future[Measurement] = Future()
        job = _Job(program, candidate, future, best_s, plan or self._settings.plan, {}, lowered)
        with self._lock:
            self._refuse_if_closed()
            self._jobs.put(job)
        return future

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise RunnerClosed("this runner is closed; make another to measure more")

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        """Begin to compute what a program's candidates will be checked against; else the first candidate does.

        `inputs` is the data of its arguments, by default that of the runner. A program keeps the inputs that it was
        first prepared with.
        """
        self._expected(program, inputs=inputs)

    def measure(
        self, program: Program, traces: Iterable[str], target: str, best_s: float | None = None
    ) -> Iterator[Measurement]:
        """Measure a batch of candidates of one program; gives their results in their order, as they come."""
        futures = [self.submit(program, trace, target, best_s) for trace in traces]
        return (future.result() for future in futures)

    def wait_ready(self) -> None:
        """Wait until every worker has started; raises `ResourceError` when one does not. Nothing requires it."""
        for worker in (*self._builders, self._runner):
            worker.await_ready()

    def usage(self) -> tuple[WorkerUsage, ...]:
        """What the workers have used so far."""
        return tuple(worker.usage() for worker in (*self._builders, self._runner))

    def close(self) -> None:
        """End the workers, whatever they do; measurements under way end with `RunnerClosed`."""
        with self._lock:
            self._closed.set()
            self._jobs.put(None)
        workers = (*self._builders, self._runner)
        for worker in workers:
            worker.close()
        if threading.current_thread() is not self._coordinator and self._coordinator.ident is not None:
            self._coordinator.join()
        self._building.shutdown()
        for worker in workers:
            worker.kill()
        self._spawner.shutdown()
        self._cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _worker(self, role: WorkerRole, name: str) -> WorkerProcess:
        settings = self._settings
        place = WorkerSpec(role, name, settings.worker, settings.threads, self._folder)
        return WorkerProcess(place, settings.limits, lambda launch: self._spawner.submit(launch).result())

    # --- the coordinator's thread ------------------------------------------------------------------------

    def _coordinate(self) -> None:
        while (first := self._jobs.get()) is not None:
            self._visit_all(self._build_batch(first))
        while not self._jobs.empty():
            left = self._jobs.get()
            if left is not None and left.future.set_running_or_notify_cancel():
                left.future.set_exception(RunnerClosed("the runner was closed before this was measured"))

    def _build_batch(self, job: _Job) -> list[_Job]:
        """Build this job and all that come in until every one is built."""
        batch: list[_Job] = []
        under_way: list[Future[Any]] = []
        more: _Job | None = job
        while more is not None:
            if more.future.set_running_or_notify_cancel():
                batch.append(more)
                under_way.append(self._expected(more.program, more.arithmetic))
                under_way.append(self._building.submit(self._build, more))
            more = self._next(under_way) if len(batch) < _MAX_BATCH else None
        wait(under_way)
        return batch

    def _next(self, under_way: list[Future[Any]]) -> _Job | None:
        """The next job, while an earlier one is still building; None when there is none by then."""
        while True:
            try:
                job = self._jobs.get(timeout=0.005)
            except queue.Empty:
                if all(future.done() for future in under_way):
                    return None
                continue
            if job is None:  # closing: leave the mark for the loop above
                self._jobs.put(None)
            return job

    def _lower(self, candidate: MeasureCandidate) -> Lowered:
        try:
            with self._builder() as builder:
                request = Message(MessageKind.LOWER, asdict(candidate))
                answer = builder.request(request, self._settings.limits.build_s)
        except WorkerLost as lost:
            if self._closed.is_set():
                raise RunnerClosed("the runner was closed while this was lowered") from lost
            return Lowered(candidate, None, lost.failure(Reason.BUILD_TIMEOUT))
        if answer.kind is MessageKind.DONE:
            return Lowered(candidate, str(answer.body["code"]), None, answer.body, answer.blob)
        return Lowered(candidate, None, _failure(answer, candidate))

    def _build(self, job: _Job) -> None:
        """Compile a candidate on whichever builder is free, unless its machine code is at hand.

        An exception goes to the job's future.
        """
        lowered = job.lowered
        if lowered is not None:
            job.count(lowered.body.get("phases", {}))
            job.failure = lowered.failure
        if job.failure is None:
            job.artefact = self._built.get(job.candidate)
        if job.failure is not None or job.artefact is not None:
            return
        try:
            with self._builder() as builder:
                answer = builder.request(_build_request(job), self._settings.limits.build_s)
            if answer.kind is MessageKind.DONE:
                job.artefact = answer
                job.count(answer.body["phases"])
                self._built.add(job.candidate, answer)
            else:
                job.failure = _failure(answer, job.candidate)
        except WorkerLost as lost:
            job.failure = lost.failure(Reason.BUILD_TIMEOUT)
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the measurement
            job.future.set_exception(error)

    def _visit_all(self, batch: list[_Job]) -> None:
        """Visit what was built in turns until each has had its visits, or has lost the race, and report."""
        for job in batch:
            self._try(job, self._begin)
        with self._turns.timing():
            self._visit_in_turns(batch)

    def _visit_in_turns(self, batch: list[_Job]) -> None:
        left = [job for job in batch if not job.future.done()]
        turn = 0
        while left:
            for job in left if turn % 2 == 0 else reversed(left):
                self._try(job, self._visit)
            for job in left:
                self._try(job, self._note_best)
            for job in left:
                self._try(job, self._end)
            left = [job for job in left if not job.future.done()]
            turn += 1

    def _try(self, job: _Job, act: Callable[[_Job], None]) -> None:
        """Call a function on a job that is not done; an exception goes to its future."""
        if job.future.done():
            return
        try:
            if self._closed.is_set():
                raise RunnerClosed("the runner was closed while this was measured")
            act(job)
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the measurement
            job.future.set_exception(error)

    def _begin(self, job: _Job) -> None:
        """A job that was not built ends here; for others, wait until there is something to check them against."""
        if job.failure is not None:
            job.finish()
            return
        started = time.perf_counter()
        self._expected(job.program, job.arithmetic).result()
        job.count({"reference": time.perf_counter() - started})

    def _visit(self, job: _Job) -> None:
        assert job.artefact is not None
        # A worker that is still starting would disturb what is timed.
        for worker in (*self._builders, self._runner):
            worker.await_ready()
        if job.visits:
            self._closed.wait(max(0.0, job.visited_at + job.plan.apart_s - time.monotonic()))
        body = {
            "artefact": job.artefact.body["artefact"],
            "data": str(self._expected(job.program, job.arithmetic).result()),
            "plan": asdict(job.plan),
            "best_s": self._best_of(job),
            "first": not job.visits,
            "verify": len(job.visits) in {0, job.plan.visits - 1},
        }
        try:
            answer = self._runner.request(
                Message(MessageKind.RUN, body, job.artefact.blob), self._settings.limits.run_s
            )
        except WorkerLost as lost:
            if self._closed.is_set():
                raise RunnerClosed("the runner was closed while this was measured") from lost
            job.failure = lost.failure(Reason.RUN_TIMEOUT)
            job.finish()
            return
        job.visited_at = time.monotonic()
        job.count(answer.body.get("phases", {}))
        if answer.kind is MessageKind.DONE:
            job.visits.append(tuple(float(t) for t in answer.body["times"]))
            if answer.body["prologue_seconds"] is not None:
                job.prologues.append(float(answer.body["prologue_seconds"]))
        else:
            job.failure = _failure(answer, job.candidate)
            job.finish()

    def _best_of(self, job: _Job) -> float | None:
        return min((b for b in (self._best.get(job.task), job.best_s) if b is not None), default=None)

    def _note_best(self, job: _Job) -> None:
        if len(job.visits) >= LEAST_VISITS:
            self._best[job.task] = min(self._best.get(job.task, float("inf")), median_of(job.visits))

    def _end(self, job: _Job) -> None:
        """Report a job that had its visits, or needs no more of them."""
        if len(job.visits) >= job.plan.visits:
            job.finish()
        elif is_clearly_slower(job.visits, self._best_of(job), job.plan.race_ratio):
            job.finish(raced=True)

    def _expected(
        self, program: Program, arithmetic: AllowedArithmetic = AS_WRITTEN, inputs: Inputs | None = None
    ) -> Future[Path]:
        """The file of a program's data and expected results, with the tolerance of a way to compute them.

        It is asked for when the two are first seen.
        """
        key = (str(program), program.params)
        with self._lock:
            data = self._given.setdefault(key, inputs or self._inputs)
            if (key, arithmetic) not in self._data:
                self._data[key, arithmetic] = self._building.submit(self._prepare, program, arithmetic, data)
            return self._data[key, arithmetic]

    def _prepare(self, program: Program, arithmetic: AllowedArithmetic, inputs: Inputs | None) -> Path:
        """Have a builder compute a program's data and expected results."""
        text = str(program)
        said = json.dumps((text, program.params, arithmetic.steps, arithmetic.fastmath))
        name = hashlib.sha256(said.encode()).hexdigest()[:16]
        given = given_inputs(program.func, inputs, self._settings.seed)
        given_path, path = self._folder / f"{name}.given.npz", self._folder / f"{name}.npz"
        with explaining(f"writing data to {self._folder}"):
            write_arrays(given_path, given.arrays)
        body = {
            "program": text,
            "params": program.params,
            "given": str(given_path),
            "ranges": given.ranges,
            "seed": self._settings.seed,
            "steps": arithmetic.steps,
            "fastmath": arithmetic.fastmath,
            "path": str(path),
        }
        what = f"computing the expected result of {program.key}"
        answer = self._prepared(Message(MessageKind.PREPARE, body), what)
        if answer.kind is MessageKind.FAILED:
            raise CheckError(f"{what} failed: {_text(answer)}")
        if answer.kind is MessageKind.LACK:
            raise ResourceError(f"{what} failed: {_text(answer)}")
        if answer.kind is not MessageKind.DONE:
            raise WorkerBug(f"{what} failed", _text(answer), MeasureCandidate(text, program.params, "", ""))
        return path

    def _prepared(self, request: Message, what: str) -> Message:
        """The answer of whichever builder is free; one that dies over it is no candidate's fault, and is replaced."""
        for attempt in range(1, _PREPARATIONS + 1):
            try:
                with self._builder() as builder:
                    return builder.request(request, self._settings.limits.prepare_s)
            except WorkerLost as lost:
                if self._closed.is_set():
                    raise RunnerClosed("the runner was closed while this was measured") from lost
                if attempt == _PREPARATIONS or not lost.how.may_pass:
                    raise CheckError(f"{what} failed: {lost.reason}\n{lost.detail}") from lost
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _builder(self) -> Iterator[WorkerProcess]:
        """Whichever builder is free, while nothing is timed."""
        with self._turns.working():
            builder = self._idle.get()
            try:
                yield builder
            finally:
                self._idle.put(builder)


def _build_request(job: _Job) -> Message:
    lowered = job.lowered
    return (
        Message(MessageKind.BUILD, asdict(job.candidate))
        if lowered is None
        else Message(MessageKind.COMPILE, lowered.body, lowered.text)
    )


def _failure(answer: Message, candidate: MeasureCandidate) -> Failure:
    if answer.kind is MessageKind.FAILED:
        return Failure(answer.body["reason"], answer.body["detail"])
    if answer.kind is MessageKind.LACK:
        raise ResourceError(f"measuring a candidate failed: {_text(answer)}")
    raise WorkerBug("a worker raised an exception while measuring a candidate", _text(answer), candidate)


def _text(answer: Message) -> str:
    body = answer.body
    return str(body.get("traceback") or body.get("detail") or body.get("reason") or body)
