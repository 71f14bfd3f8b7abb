"""What builders make for a runner, each request on whichever is free: what is lowered is compiled ahead."""

from __future__ import annotations

import queue
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import ParamSpec, TypeVar

from metasched.errors import ResourceError
from metasched.measure.expected_results import MEMORY_HINT, memory_for_expected_results
from metasched.measure.job import Job
from metasched.measure.quiet import TimingTurns
from metasched.measure.recently_built import RecentlyBuilt
from metasched.measure.records import (
    CheckError,
    Failure,
    Limits,
    Lowered,
    MeasureCandidate,
    Reason,
    RunnerClosed,
    WorkerBug,
)
from metasched.measure.workers.process import Loss, WorkerLost, WorkerProcess
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.support.started_threads import start_threads

P = ParamSpec("P")
T = TypeVar("T")

_MOST_PREPARATIONS = 3  # how often an expected result is asked for whose worker dies
_MOST_AHEAD = 64  # codes that are compiled before they are asked for


class Building:
    """Builder processes, with a thread for each that asks it.

    Args:
        workers: the builders.
        limits: what a request may take.
        turns: by which they pause while something is timed; None where they have cores of their own.
        closed: set once the runner is closed: nothing is compiled ahead any more, and lost workers are no surprise.
    """

    def __init__(
        self, workers: Sequence[WorkerProcess], limits: Limits, turns: TimingTurns | None, closed: threading.Event
    ) -> None:
        self.workers = tuple(workers)
        self.built = RecentlyBuilt()
        self._limits = limits
        self._turns = turns
        self._closed = closed
        self._threads = ThreadPoolExecutor(len(self.workers), "metasched-build")
        self._idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        for worker in self.workers:
            self._idle.put(worker)
        self._ahead: OrderedDict[str, Future[Message]] = OrderedDict()  # what is compiled as soon as it is lowered
        self._wanted: Counter[str] = Counter()  # how many jobs wait for the machine code of what was lowered
        self._busy: dict[WorkerProcess, object] = {}  # what each is at: a job's future, or code, which several may be
        self._lock = threading.Lock()

    def start_threads(self) -> None:
        """Start the threads. Raises RuntimeError where the system denies one."""
        start_threads(self._threads, len(self.workers))

    def shut_down(self) -> None:
        """End the threads of a runner that is closed, once what they are at has ended."""
        with self._lock:  # what is compiled ahead is begun under it, and not once the runner is closed
            self._threads.shutdown(wait=False)
        self._threads.shutdown()

    def begin(self, call: Callable[P, T], /, *args: P.args, **named: P.kwargs) -> Future[T]:
        """Begin a call on a thread, whatever it is."""
        return self._threads.submit(call, *args, **named)

    # --- what is asked of a builder: each call waits until one is free

    def ask(self, request: Message) -> Message:
        """The answer to a request about a candidate. Raises WorkerLost."""
        with self._builder() as builder:
            return builder.request(request, self._limits.build_s)

    def lower(self, candidate: MeasureCandidate) -> Lowered:
        """The code of a candidate, which is compiled next. Raises RunnerClosed."""
        try:
            answer = self.ask(Message(MessageKind.LOWER, asdict(candidate)))
        except WorkerLost as lost:
            if self._closed.is_set():
                raise RunnerClosed("the runner was closed while this was lowered") from lost
            return Lowered(candidate, None, lost.failure(Reason.BUILD_TIMEOUT), {"phases": {"build": lost.seconds}})
        if answer.kind is not MessageKind.DONE:
            return Lowered(candidate, None, failure_of(answer, candidate))
        lowered = Lowered(candidate, str(answer.body["code"]), None, answer.body, answer.blob)
        self._compile_ahead(lowered)
        return lowered

    def build(self, job: Job) -> None:
        """Compile a candidate, unless its machine code is at hand. An exception goes to the job's future."""
        lowered = job.lowered
        if lowered is not None:
            job.count(lowered.body.get("phases", {}))
            job.failure = lowered.failure
        if job.failure is None:
            job.artefact = self.built.get(job.candidate)
        if job.failure is not None or job.artefact is not None:
            return
        try:
            answer = self._code_of(job)
            if answer.kind is MessageKind.DONE:
                job.artefact = answer
                job.count(answer.body["phases"])
                self.built.add(job.candidate, answer)
            else:
                job.failure = failure_of(answer, job.candidate)
        except WorkerLost as lost:
            job.failure = lost.failure(Reason.BUILD_TIMEOUT)
            job.count({"build": lost.seconds})
        except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the measurement
            job.fail(error)

    def build_whole(self, job: Job) -> Message:
        """The candidate's code in one piece, or why there is none. Raises WorkerLost."""
        return self._ask_for(job.future, Message(MessageKind.BUILD_WHOLE, asdict(job.candidate)))

    def expected_results(self, request: Message, what: str) -> Message:
        """The answer to a request for expected results; a builder that dies over it is no candidate's fault, and is
        replaced. Raises CheckError and RunnerClosed.
        """
        limits = self._limits
        for attempt in range(1, _MOST_PREPARATIONS + 1):
            try:
                with self._builder() as builder:
                    memory = memory_for_expected_results(limits.memory_bytes)
                    return builder.request(_with_memory(request, memory), limits.prepare_s, memory)
            except WorkerLost as lost:
                if self._closed.is_set():
                    raise RunnerClosed("the runner was closed while this was measured") from lost
                if attempt == _MOST_PREPARATIONS or not lost.how.may_pass:
                    hint = MEMORY_HINT if lost.how is Loss.MEMORY else ""
                    raise CheckError(f"{what} failed: {lost.reason}\n{lost.detail}", hint=hint) from lost
        raise AssertionError("the last attempt returns or raises")

    def _compile_ahead(self, lowered: Lowered) -> None:
        code = str(lowered.code)
        with self._lock:
            if code not in self._ahead and not self._closed.is_set():
                self._ahead[code] = self.begin(self._compile, lowered)
                while len(self._ahead) > _MOST_AHEAD:
                    self._ahead.popitem(last=False)

    def _compile(self, lowered: Lowered) -> Message:
        """The machine code of what was lowered, or why there is none. Raises WorkerLost."""
        return self._ask_for(lowered.code, Message(MessageKind.COMPILE, lowered.body, lowered.text))

    def _code_of(self, job: Job) -> Message:
        """The machine code of a job, or why there is none. It may have been compiled, or be on its way, since it was
        lowered.
        """
        if job.lowered is None:
            return self._ask_for(job.future, Message(MessageKind.BUILD, asdict(job.candidate)))
        with self._lock:
            ahead = self._ahead.pop(str(job.lowered.code), None)
        return self._compile(job.lowered) if ahead is None else ahead.result()

    def _ask_for(self, work: object, request: Message) -> Message:
        """The answer of whichever builder is free, which is ended if what it is at is given up."""
        with self._builder() as builder, self.interrupting(work, builder):
            return builder.request(request, self._limits.build_s)

    @contextmanager
    def _builder(self) -> Iterator[WorkerProcess]:
        """Whichever builder is free, while nothing is timed on its cores."""
        with nullcontext() if self._turns is None else self._turns.working():
            builder = self._idle.get()
            try:
                yield builder
            finally:
                self._idle.put(builder)

    # --- what is given up

    @contextmanager
    def interrupting(self, work: object, worker: WorkerProcess) -> Iterator[None]:
        """While its body has a worker at a job's future, or at code, giving the job up ends the worker's process."""
        with self._lock:
            self._busy[worker] = work
        try:
            yield
        finally:
            with self._lock:
                del self._busy[worker]

    def want(self, code: str) -> None:
        """One more job waits for the machine code of what was lowered."""
        with self._lock:
            self._wanted[code] += 1

    def leave(self, job: Job, code: str | None) -> None:
        """A job's future is done; if it was cancelled, end the processes that are at what nobody else waits for."""
        with self._lock:
            if code is not None:
                self._wanted[code] -= 1
                if self._wanted[code]:
                    code = None  # another waits for the same machine code
                else:
                    del self._wanted[code]
            if not job.future.cancelled():
                return
            if code is not None:
                self._ahead.pop(code, None)  # whoever asks for it later does not get the end of this one
            for worker, work in self._busy.items():
                if work is job.future or (code is not None and work == code):
                    worker.interrupt()


def failure_of(answer: Message, candidate: MeasureCandidate) -> Failure:
    """Why a worker has no result. Raises ResourceError for what the machine denies, WorkerBug for a fault of ours."""
    if answer.kind is MessageKind.FAILED:
        return Failure(answer.body["reason"], answer.body["detail"])
    if answer.kind is MessageKind.LACK:
        raise ResourceError(f"measuring a candidate failed: {answer.error_text}")
    raise WorkerBug("a worker raised an exception while measuring a candidate", answer.error_text, candidate)


def _with_memory(request: Message, memory_bytes: int) -> Message:
    """The request to a worker that may hold so much for it."""
    return replace(request, body=request.body | {"memory_bytes": memory_bytes})
