"""Measuring candidates on this machine: builders compile side by side, then one runner checks and times alone."""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, field
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from metasched.ir.program import Program
from metasched.measure.building import Building, failure_of
from metasched.measure.checking.inputs import Inputs
from metasched.measure.expected_results import ExpectedResults
from metasched.measure.job import Job, next_visited, turn_order
from metasched.measure.quiet import TimingTurns
from metasched.measure.records import (
    Limits,
    Lowered,
    MeasureCandidate,
    Measurement,
    Reason,
    RunnerClosed,
)
from metasched.measure.timing import LEAST_VISITS, TimingPlan, is_clearly_slower, is_known_well, median_of
from metasched.measure.workers.cores import CoreShare, kept_apart, shared_cores
from metasched.measure.workers.process import WorkerLost, WorkerProcess, WorkerRole, WorkerSpec, WorkerUsage
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.measure.workers.resources import explaining
from metasched.measure.workers.temporary import TemporaryFolder, remove_abandoned
from metasched.measure.workers.worker_server import WorkerServer
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing
from metasched.target import Target, TargetError

WORKER_MODULE = "metasched.measure.workers.worker"
_TICK_S = 0.02  # how often it is seen whether what is built was given up
# A candidate so many times slower than the best may turn out to be the best: all its code is checked.
_NEAR_RATIO = 1.05
_MAX_BATCH = 64  # candidates built before the first of them runs: their machine code is held meanwhile


class Runner(Protocol):
    """Measures candidates, here or elsewhere.

    `trace` and `target` are texts. A future gives the result of a candidate, or its failure; it raises `WorkerBug`
    when measuring itself is at fault, and `ResourceError` when the machine denies what it needs. Until then it is
    pending, and `cancel` gives the candidate up: what is under way for it is ended, as far as that can be done.
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

    @cached_property
    def share(self) -> CoreShare | None:
        """Cores for building while others time; None where a kernel takes all of them."""
        return shared_cores(self.threads)


class LocalRunner:
    """A `Runner` in worker processes of its own, which start at once and end with it, or with this process.

    Candidates submitted together are built together, on `builders` processes; once nothing of theirs is left to build,
    they run one after another while nothing else does, and then all of them again (see `TimingPlan`). Only where there
    are more cores than a kernel's threads take, what is to be measured next is built on the others meanwhile. `inputs`
    says what data arguments take, by name: an array, a range (low, high), or a function of (generator, shape, dtype).
    May be used from any thread.

    Making one also removes what earlier ones left in the folder for temporary files, when they were killed. Raises
    ResourceError when the machine denies a folder or a process.
    """

    def __init__(self, settings: RunnerSettings, inputs: Inputs | None = None) -> None:
        self._settings = settings
        remove_abandoned()
        folder = TemporaryFolder()
        self._folder = folder.path
        self._cleanup = weakref.finalize(self, folder.close)
        self._server = WorkerServer(settings.worker, self._folder, settings.threads)
        self._share = settings.share
        self._turns = TimingTurns()
        self._closed = threading.Event()
        builders = [self._worker(WorkerRole.BUILDER, f"builder-{n}") for n in range(settings.builders)]
        turns = self._turns if self._share is None else None
        self._building = Building(builders, settings.limits, turns, self._closed)
        self._runner = self._worker(WorkerRole.RUNNER, "runner")
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._expected = ExpectedResults(
            self._folder, settings.seed, inputs, self._building.begin, self._building.expected_results
        )
        self._best: dict[tuple[Any, ...], float] = {}
        self._lock = threading.Lock()
        self._coordinator = threading.Thread(target=self._coordinate, name="metasched-measure", daemon=True)
        try:
            with explaining("starting workers"):
                self._building.start_threads()
                for worker in self._workers:
                    worker.start()
                self._coordinator.start()
        except BaseException:
            self.close()
            raise

    def require_able(self, target: Target) -> None:
        """Raises TargetError for a target with instruction sets that this machine does not have."""
        lacking = Target.detect(target.threads).lacking(target)
        if lacking:
            raise TargetError(
                f"kernels for `{target.name}` cannot be measured on this machine, which "
                f"lacks {listing(lacking, most=4)}",
                hint="`compile` and `guess` make kernels for another CPU without measuring, and "
                '`runner="dask://HOST:PORT"` measures on machines of its kind',
            )

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        """The code of one candidate, on whichever builder is free."""
        candidate = MeasureCandidate(str(program), program.params, trace, target)
        with self._lock:
            self._refuse_if_closed()
            return self._building.begin(self._building.lower, candidate)

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
        job = Job(program, candidate, future, best_s, plan or self._settings.plan, {}, lowered)
        code = None if lowered is None else lowered.code
        with self._lock:
            self._refuse_if_closed()
            if code is not None:
                self._building.want(code)
            self._jobs.put(job)
        future.add_done_callback(lambda _: self._building.leave(job, code))
        return future

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise RunnerClosed("this runner is closed", hint="make another to measure more")

    def prepare(self, program: Program, inputs: Inputs | None = None) -> None:
        """Begin to compute what a program's candidates will be checked against; else the first candidate does.

        `inputs` is the data of its arguments, by default that of the runner. A program keeps the inputs that it was
        first prepared with. Raises RunnerClosed after `close`.
        """
        with self._lock:
            self._refuse_if_closed()
            self._expected.file_of(program, inputs=inputs)

    def measure(
        self, program: Program, traces: Iterable[str], target: str, best_s: float | None = None
    ) -> Iterator[Measurement]:
        """Measure a batch of candidates of one program; gives their results in their order, as they come."""
        futures = [self.submit(program, trace, target, best_s) for trace in traces]
        return (future.result() for future in futures)

    def usage(self) -> tuple[WorkerUsage, ...]:
        """What the workers have used so far."""
        return tuple(worker.usage() for worker in self._workers)

    def close(self) -> None:
        """End the workers, whatever they do; measurements under way end with `RunnerClosed`."""
        with self._lock:
            self._closed.set()
            self._jobs.put(None)
        for worker in self._workers:
            worker.close()
        self._server.close()
        if threading.current_thread() is not self._coordinator and self._coordinator.ident is not None:
            self._coordinator.join()
        self._building.shut_down()
        for worker in self._workers:
            worker.kill()
        self._cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _workers(self) -> tuple[WorkerProcess, ...]:
        return (*self._building.workers, self._runner)

    def _worker(self, role: WorkerRole, name: str) -> WorkerProcess:
        settings = self._settings
        share, any_cpu = settings.share, frozenset[int]()
        cpus = any_cpu if share is None else share.timing if role is WorkerRole.RUNNER else share.building
        place = WorkerSpec(role, name, settings.threads, self._folder, cpus)
        return WorkerProcess(place, settings.limits, self._server)

    # --- the coordinator's thread ------------------------------------------------------------------------

    def _coordinate(self) -> None:
        while (first := self._jobs.get()) is not None:
            self._measure_batch(first)
        while not self._jobs.empty():
            left = self._jobs.get()
            if left is not None:
                left.fail(RunnerClosed("the runner was closed before this was measured"))

    def _measure_batch(self, first: Job) -> None:
        """Measure a job, and all that come in while it is built. What goes wrong with none of them alone is raised to
        whoever waits for any; the next batch may fare better.
        """
        batch: list[Job] = []
        try:
            with explaining("measuring candidates"):
                self._build_batch(first, batch)
                self._visit_all(batch)
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the measurements
            for job in (first, *batch):
                job.fail(error)

    def _build_batch(self, job: Job, batch: list[Job]) -> None:
        """Build this job and all that come in until every one is built, and add them to a batch."""
        under_way: list[Future[Any]] = []
        more: Job | None = job
        while more is not None:
            if not more.future.done():
                batch.append(more)
                under_way.append(self._expected.file_of(more.program, more.arithmetic))
                under_way.append(self._building.begin(self._building.build, more))
            more = self._next_job(under_way) if len(batch) < _MAX_BATCH else None
        while not all(job.future.done() for job in batch) and wait(under_way, _TICK_S).not_done:
            pass  # what is given up meanwhile is not waited for

    def _next_job(self, under_way: list[Future[Any]]) -> Job | None:
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

    def _visit_all(self, batch: list[Job]) -> None:
        """Visit what was built in turns until each has had its visits, or has lost the race, and report."""
        for job in batch:
            self._try(job, self._await_expected)
        for job in batch:
            self._expected.forget_failed(job.program, job.arithmetic)
        if all(job.future.done() for job in batch):
            return
        with self._turns.timing(), kept_apart(self._building.workers, self._share):
            self._visit_in_turns(batch)
        self._check_wholes([job for job in batch if job.is_timed])

    def _visit_in_turns(self, batch: list[Job]) -> None:
        left = [job for job in batch if not job.future.done()]
        turn = 0
        while left:
            waiting = turn_order(left, turn)
            while waiting:
                self._try(waiting.pop(next_visited(waiting, time.monotonic())), self._visit)
            for job in left:
                self._try(job, self._note_best)
            for job in left:
                self._try(job, self._finish_visited)
            left = [job for job in left if not (job.future.done() or job.is_timed)]
            turn += 1

    def _try(self, job: Job, act: Callable[[Job], None]) -> None:
        """Call a function on a job that is not done; an exception goes to its future."""
        if job.future.done():
            return
        try:
            if self._closed.is_set():
                raise RunnerClosed("the runner was closed while this was measured")
            act(job)
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the measurement
            job.fail(error)

    def _await_expected(self, job: Job) -> None:
        """A job that was not built ends here; for others, wait until there is something to check them against."""
        if job.failure is not None:
            job.finish()
            return
        started = time.perf_counter()
        self._expected.file_of(job.program, job.arithmetic).result()
        job.count({"reference": time.perf_counter() - started})

    def _visit(self, job: Job) -> None:
        assert job.artefact is not None
        # A worker that is still starting would disturb what is timed, unless it does so on cores of its own.
        for worker in (*(self._building.workers if self._share is None else ()), self._runner):
            worker.await_ready()
        self._closed.wait(max(0.0, job.due_at - time.monotonic()))
        body = {
            "artefact": job.artefact.body["artefact"],
            "data": self._data_of(job),
            "plan": asdict(job.plan),
            "best_s": self._best_of(job),
            "before_s": median_of(job.visits[-1:]) if job.visits else None,
            "first": not job.visits,
            # At the first, and once it was called many times: a race between threads may show in one call of many.
            "verify": len(job.visits) in {0, LEAST_VISITS - 1},
        }
        try:
            with self._building.interrupting(job.future, self._runner):
                answer = self._runner.request(
                    Message(MessageKind.RUN, body, job.artefact.blob), self._settings.limits.run_s
                )
        except WorkerLost as lost:
            self._fail(job, lost, Reason.RUN_TIMEOUT)
            return
        job.visited_at = time.monotonic()
        job.count(answer.body.get("phases", {}))
        if answer.kind is MessageKind.DONE:
            job.visits.append(tuple(float(t) for t in answer.body["times"]))
            if answer.body["prologue_seconds"] is not None:
                job.prologues.append(float(answer.body["prologue_seconds"]))
        else:
            job.failure = failure_of(answer, job.candidate)
            job.finish()

    def _best_of(self, job: Job) -> float | None:
        return min((b for b in (self._best.get(job.task), job.best_s) if b is not None), default=None)

    def _note_best(self, job: Job) -> None:
        if len(job.visits) >= LEAST_VISITS:
            self._best[job.task] = min(self._best.get(job.task, float("inf")), median_of(job.visits))

    def _finish_visited(self, job: Job) -> None:
        """Report a job that had its visits, or needs no more of them; one of the fastest, once its whole is checked."""
        best_s = self._best_of(job)
        had_all = len(job.visits) >= job.plan.visits
        if not had_all and is_clearly_slower(job.visits, best_s, job.plan.race_ratio):
            job.finish(raced=True)
        elif had_all or is_known_well(job.visits, best_s, job.plan):
            job.is_timed = self._may_be_best(job, best_s) and not self._is_checked(job)
            if not job.is_timed:
                job.finish()

    @staticmethod
    def _may_be_best(job: Job, best_s: float | None) -> bool:
        # What is timed in turns may be the best once another turns out to be wrong.
        return job.plan.in_turns or best_s is None or median_of(job.visits) <= _NEAR_RATIO * best_s

    def _is_checked(self, job: Job) -> bool:
        """Whether all its code was checked. What has a prologue has code that computes all in one call, too."""
        assert job.artefact is not None
        return job.artefact.body["artefact"]["ahead"] is None or self._building.built.is_checked(job.candidate)

    def _check_wholes(self, jobs: Sequence[Job]) -> None:
        """Check timed candidates as wholes, and report them: before a time counts as the best, all code is right.

        Of candidates that race, one is checked only if it is faster than all that are known to be right. The others
        are checked once they are timed in turns, before one of them may be the best.
        """
        wholes = [(job, self._begin_whole(job)) for job in jobs if not job.plan.is_raced]
        for job, whole in wholes:
            self._try(job, partial(self._check_whole, whole))
        right_s: dict[tuple[Any, ...], float] = {}
        for job in sorted((job for job in jobs if job.plan.is_raced), key=lambda job: median_of(job.visits)):
            least, seconds = right_s.get(job.task, job.best_s), median_of(job.visits)
            if least is not None and seconds >= least:
                self._try(job, Job.finish)
                continue
            self._try(job, partial(self._check_whole, self._begin_whole(job)))
            if self._building.built.is_checked(job.candidate):
                right_s[job.task] = seconds

    def _begin_whole(self, job: Job) -> Future[Message]:
        return self._building.begin(self._building.build_whole, job)

    def _check_whole(self, building: Future[Message], job: Job) -> None:
        reason = Reason.BUILD_TIMEOUT
        try:
            answer = building.result()
            if answer.kind is MessageKind.DONE:
                reason = Reason.RUN_TIMEOUT
                job.count(answer.body["phases"])
                body = {"artefact": answer.body["artefact"], "data": self._data_of(job), "plan": asdict(job.plan)}
                with self._building.interrupting(job.future, self._runner):
                    request = Message(MessageKind.CHECK, body, answer.blob)
                    answer = self._runner.request(request, self._settings.limits.run_s)
        except WorkerLost as lost:
            self._fail(job, lost, reason)
            return
        job.count(answer.body.get("phases", {}))
        if answer.kind is MessageKind.DONE:
            self._building.built.note_checked(job.candidate)
        else:
            job.failure = failure_of(answer, job.candidate)
        job.finish()

    def _fail(self, job: Job, lost: WorkerLost, timeout: Reason) -> None:
        """Report a job over which a worker was lost."""
        if self._closed.is_set():
            raise RunnerClosed("the runner was closed while this was measured") from lost
        job.failure = lost.failure(timeout)
        job.count({"build" if timeout is Reason.BUILD_TIMEOUT else "run": lost.seconds})
        job.finish()

    def _data_of(self, job: Job) -> str:
        """Where the data is that a job is checked on."""
        return str(self._expected.file_of(job.program, job.arithmetic).result())
