"""One worker process, seen from its parent: started, asked, watched, killed, replaced."""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Set
from contextlib import ExitStack
from enum import Enum
from pathlib import Path

import psutil

from metasched.errors import ResourceError
from metasched.measure.records import Failure, Limits, Reason, RunnerClosed, WorkerBug
from metasched.measure.workers.cores import pin
from metasched.measure.workers.protocol import Decoder, Message, MessageKind, ProtocolError
from metasched.measure.workers.resources import count_memory_kills, explaining
from metasched.measure.workers.worker_server import ForkedProcess, WorkerServer, waited_for
from metasched.support.data_classes import dataclass

LOGGER = logging.getLogger(__name__)

_TICK_S = 0.05  # how often a busy worker's memory is looked at
_TAIL_BYTES = 4000
_MOST_STARTS = 3  # how often a worker that dies before it is ready is started
_NO_MEMORY = re.compile(rb"out of memory|bad_alloc|cannot allocate memory|MemoryError", re.IGNORECASE)


class WorkerRole(Enum):
    """What a worker is for; it imports early what its role needs."""

    BUILDER = "builder"
    RUNNER = "runner"


class Loss(Enum):
    """How a worker was lost."""

    TIMEOUT = "timeout"
    MEMORY = "memory"
    KILLED = "killed"  # by somebody else, such as a system that is out of memory
    CRASH = "crash"

    @property
    def may_pass(self) -> bool:
        """Whether another process may fare better with the same request."""
        return self in {Loss.KILLED, Loss.CRASH}


class WorkerLost(Exception):
    """A worker that died, or had to be killed, over a request, `seconds` after it was sent."""

    def __init__(self, how: Loss, reason: str, detail: str) -> None:
        self.how = how
        self.reason = reason
        self.detail = detail
        self.seconds = 0.0
        super().__init__(how, reason, detail)

    def failure(self, timeout: Reason) -> Failure:
        """This loss as the failure of the candidate; `timeout` is the reason when it took too long."""
        return Failure(timeout.value if self.how is Loss.TIMEOUT else self.reason, self.detail)


@dataclass(frozen=True)
class WorkerUsage:
    """What one place for a worker has used: processes started, requests answered."""

    name: str
    starts: int
    requests: int


@dataclass(frozen=True)
class WorkerSpec:
    """What a worker process is: `folder` takes its standard error, `cpus` are those that it starts on, else any."""

    role: WorkerRole
    name: str
    threads: int
    folder: Path
    cpus: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Started:
    """A process, and our ends of the pipes to it."""

    process: ForkedProcess
    requests: int
    answers: int


class WorkerProcess:
    """A place for a worker: a process is in it from `start` on, and another takes over when it is lost or worn.

    `server` forks them. Not to be used by two threads at once, except for `kill`.
    """

    def __init__(self, place: WorkerSpec, limits: Limits, server: WorkerServer) -> None:
        self.name = place.name
        self._place = place
        self._limits = limits
        self._stderr = place.folder / f"{place.name}.stderr"
        self._server = server
        self._allowed = limits.memory_bytes
        self._started: Started | None = None
        self._interrupted: Started | None = None
        self._kills_before: int | None = None  # of the system, for want of memory, when it was last given something
        self._decoder = Decoder()
        self._ready = False
        self._served = 0
        self._starts = 0
        self._requests = 0
        self._closed = threading.Event()

    @property
    def pid(self) -> int | None:
        """The process in place now, if there is one."""
        started = self._started  # another thread may end it meanwhile
        return None if started is None else started.process.pid

    def usage(self) -> WorkerUsage:
        return WorkerUsage(self.name, self._starts, self._requests)

    def start(self) -> None:
        """Start a process unless one is there; it gets ready by itself."""
        if self._started is None and not self._closed.is_set():
            self._decoder = Decoder()
            self._ready = False
            self._served = 0
            self._starts += 1
            self._started = self._launch()
            if self._closed.is_set():  # in the meantime
                self._started.process.kill()

    def await_ready(self) -> None:
        """Have a process that is idle and ready; one that dies while it starts is replaced, a few times.

        Raises ResourceError when none gets ready, WorkerBug when one says that it is our fault, RunnerClosed.
        """
        started = self._started
        if self._ready and started is not None and (started is self._interrupted or started.process.poll() is not None):
            self.kill()  # it was killed while it had nothing to do, or is about to end
        for attempt in range(1, _MOST_STARTS + 1):
            self._require_open()
            self.start()
            if self._ready:
                return
            try:
                self._ready = self._await_greeting()
            except WorkerLost as lost:
                self._require_open()
                if attempt == _MOST_STARTS or not lost.how.may_pass:
                    raise self._start_error(lost, attempt) from lost

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise RunnerClosed("the runner was closed while this was measured")

    def _await_greeting(self) -> bool:
        """Wait for what a new process says first."""
        with explaining("starting a worker process"):
            message = self._receive(time.monotonic() + self._limits.start_s)
        if message.kind is MessageKind.LACK:
            raise ResourceError(f"a worker process cannot start: {message.body['detail']}")
        if message.kind is not MessageKind.READY:
            raise WorkerBug(f"the worker `{self.name}` did not start", str(message.body.get("traceback", message)))
        LOGGER.debug("%s: process %s is ready", self.name, self.pid)
        return True

    def _start_error(self, lost: WorkerLost, attempts: int) -> ResourceError:
        if lost.how is Loss.TIMEOUT:
            return ResourceError(
                f"a worker process was not ready after {self._limits.start_s:g} s",
                hint="this machine is too busy, or its disk too slow, to measure on it now",
            )
        last = lost.detail.strip().splitlines()[-1:]
        said = f": {last[0].strip()}" if last else ""
        hint = "it may want memory or another resource: see `ulimit -a`, and what else runs here"
        if lost.how is Loss.CRASH:
            hint = f"`{sys.executable} -m {self._server.module}` in this environment shows the same"
        times = "" if attempts == 1 else f", {attempts} times"
        return ResourceError(f"a worker process ended while it started{times} ({lost.reason}){said}", hint=hint)

    def request(self, message: Message, timeout_s: float, memory_bytes: int | None = None) -> Message:
        """Send a request and wait for its answer; raises `WorkerLost`, with a new process on its way.

        `memory_bytes` is what the worker may hold meanwhile, by default what its limits say.
        """
        self.await_ready()
        sent = time.monotonic()
        deadline = sent + timeout_s
        self._allowed = memory_bytes or self._limits.memory_bytes
        self._kills_before = count_memory_kills()
        try:
            self._send(message.encode(), deadline)
            answer = self._receive(deadline)
        except WorkerLost as lost:
            lost.seconds = time.monotonic() - sent
            self.start()
            raise
        self._served += 1
        self._requests += 1
        self._recycle()
        return answer

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        started, self._started = self._started, None
        self._ready = False
        if started is not None:
            started.process.kill()
            started.process.wait()
            LOGGER.debug("%s: process %s ended", self.name, started.process.pid)
            started.process.close()
            os.close(started.requests)
            os.close(started.answers)

    def run_on(self, cpus: Set[int]) -> None:
        """Have the process that is in place now run on these CPUs."""
        process = self.pid
        if process is not None:
            pin(process, cpus)

    def interrupt(self) -> None:
        """End the process while another thread waits for its answer, which raises `WorkerLost` there. It takes no other
        request, also where the answer came before its end.
        """
        started = self._started
        if started is not None:
            self._interrupted = started
            started.process.kill()

    def close(self) -> None:
        """End the process for good. May be called while another thread waits for an answer."""
        self._closed.set()
        self.interrupt()

    def _launch(self) -> Started:
        # Pipes of its own: what prints while the interpreter starts must not get between the frames.
        with explaining("starting a worker process"), ExitStack() as theirs, ExitStack() as ours:
            requests, ours_requests = _pipe(theirs, ours)
            ours_answers, answers = _pipe(ours, theirs)
            place = self._place
            settings = {
                "role": place.role.value,
                "threads": place.threads,
                "memory_bytes": self._limits.memory_bytes,
                "cpus": sorted(place.cpus),
                "stderr": str(self._stderr),
            }
            self._kills_before = count_memory_kills()
            process = self._server.fork(settings, requests, answers)
            os.set_blocking(ours_requests, False)
            ours.pop_all()
            return Started(process, ours_requests, ours_answers)

    def _send(self, data: bytes, deadline: float) -> None:
        started = self._started
        assert started is not None
        view = memoryview(data)
        while view:
            try:
                if waited_for(started.requests, select.POLLOUT, _TICK_S):
                    view = view[os.write(started.requests, view) :]
            except BrokenPipeError:
                raise self._explain_death() from None
            self._watch(deadline)

    def _receive(self, deadline: float) -> Message:
        started = self._started
        assert started is not None
        while True:
            try:
                message = self._decoder.next_message()
            except ProtocolError as error:
                self.kill()
                raise WorkerLost(Loss.CRASH, "crash garbled", str(error)) from error
            if message is not None:
                self._observe()
                return message
            if waited_for(started.answers, select.POLLIN, _TICK_S):
                data = os.read(started.answers, 1 << 20)
                if not data:
                    raise self._explain_death()
                self._decoder.feed(data)
            elif started.process.poll() is not None:  # another process may still hold its end of the pipe
                raise self._explain_death()
            else:
                self._watch(deadline)

    def _watch(self, deadline: float) -> None:
        """Kill a worker that takes too long or holds too much."""
        held = self._observe()
        if held > self._allowed:
            self.kill()
            raise WorkerLost(Loss.MEMORY, Reason.OUT_OF_MEMORY.value, f"held {held >> 20} MiB")
        if time.monotonic() > deadline:
            self.kill()
            raise WorkerLost(Loss.TIMEOUT, Loss.TIMEOUT.value, "")

    def _observe(self) -> int:
        """The bytes of memory the process holds now; 0 when it is gone."""
        process = self.pid
        if process is None:
            return 0
        try:
            held = int(psutil.Process(process).memory_info().rss)
        except psutil.Error:  # it has just ended, which its pipe will tell
            return 0
        return held

    def _explain_death(self) -> WorkerLost:
        assert self._started is not None
        process = self._started.process
        # Its pipe is closed, so it is ending; or it has closed its pipe itself, and no longer answers.
        code = process.wait_for(2.0)
        if code is None:
            process.kill()
            code = process.wait()
        self.kill()
        if process.lack is not None:
            raise process.lack
        # One that was not forked ended with the server.
        tail = _tail(self._server.stderr if process.pid is None else self._stderr)
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        if code == -signal.SIGKILL and not self._closed.is_set():
            if count_memory_kills() != self._kills_before:
                return WorkerLost(Loss.KILLED, Reason.OUT_OF_MEMORY.value, "killed by the system for want of memory")
            return WorkerLost(Loss.KILLED, f"crash {how}", "killed by another process")
        if _NO_MEMORY.search(tail):
            return WorkerLost(Loss.MEMORY, Reason.OUT_OF_MEMORY.value, tail.decode(errors="replace"))
        return WorkerLost(Loss.CRASH, f"crash {how}", tail.decode(errors="replace"))

    def _recycle(self) -> None:
        if self._served >= self._limits.recycle_after or self._observe() > self._limits.recycle_bytes:
            self.kill()
            self.start()


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    """The two ends of a new pipe, each closed with its stack."""
    read, write = os.pipe()
    reads.callback(os.close, read)
    writes.callback(os.close, write)
    return read, write


def _tail(path: Path) -> bytes:
    """The end of a file; nothing where there is none, as of a worker that ended before it made its own."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return b""
    with file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        return file.read()
