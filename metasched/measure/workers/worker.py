"""A worker process, forked from `python -m metasched.measure.workers.worker SETTINGS` (`fork_server`).

It communicates over two pipes of its own, so that output of candidates does not interfere. It ends with its parent,
however that ends.
"""

from __future__ import annotations

import os
import queue
import resource
import select
import threading
import traceback
from typing import Any

import psutil

from metasched.errors import BuildError, MetaschedError, ScheduleError
from metasched.ir.source import settings_from_json
from metasched.measure.records import CheckError, Failure, MeasureCandidate, Reason
from metasched.measure.workers.fork_server import WorkerSettings, serve_workers
from metasched.measure.workers.process import WorkerRole
from metasched.measure.workers.protocol import Decoder, Message, MessageKind
from metasched.measure.workers.resources import as_resource_error
from metasched.measure.workers.worker_server import waited_for
from metasched.support.collection import pause_gc
from metasched.support.messages import with_hint
from metasched.target import Target

_ORPHAN_CHECK_S = 1.0
_SMALL_PROGRAM = "program small[N=8](A: f32[N]) -> B: f32[N]:\n    b: B[i] = A[i]\n"
# A step has all primitives imported.
_SMALL_TRACE = 'trace 1 of small[N=8]:\n    b = get_block("b")\n    i = get_loops(b)\n'


class Channel:
    """The pipes to the parent. A thread reads them, so that the parent's end is noticed during a request, too."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._in = settings.requests_fd
        self._out = settings.answers_fd
        self._parent = settings.parent
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="parent", daemon=True).start()

    def receive(self) -> Message:
        return self._messages.get()

    def send(self, message: Message) -> None:
        view = memoryview(message.encode())
        while view:
            view = view[os.write(self._out, view) :]

    def _read(self) -> None:
        decoder = Decoder()
        while True:
            readable = waited_for(self._in, select.POLLIN, _ORPHAN_CHECK_S)
            # A process that the parent forked may hold the pipe open after the parent's end.
            if os.getppid() != self._parent:
                os._exit(0)
            if not readable:
                continue
            data = os.read(self._in, 1 << 20)
            if not data:
                os._exit(0)
            decoder.feed(data)
            while (message := decoder.next_message()) is not None:
                self._messages.put(message)


class Worker:
    """Answers requests, one at a time."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.role = WorkerRole(settings.role)

    @classmethod
    def warm_up(cls) -> None:
        """Import what workers need, before they are forked, by building something. An error is told by each of them,
        which `preload` or a request meets.
        """
        from metasched.measure.workers import candidate_timer  # noqa: F401
        from metasched.measure.workers.builder import Builder

        Builder().build(MeasureCandidate(_SMALL_PROGRAM, (), _SMALL_TRACE, str(Target.detect(threads=1))))

    def preload(self) -> None:
        """Have what the role needs, before the first request asks for it."""
        if self.role is WorkerRole.BUILDER:
            from metasched.measure.workers.builder import Builder

            self._builder = Builder()
        else:
            from metasched.measure.workers.candidate_timer import CandidateTimer

            self._timer = CandidateTimer(self.settings.threads)

    def serve(self, channel: Channel) -> None:
        """Answer requests until the parent ends."""
        try:
            with pause_gc():
                self.preload()
            limit_memory(self.settings.memory_bytes)
        except Exception as error:
            lack = not_ready(error)
            channel.send(Message(MessageKind.BUG, {"traceback": traceback.format_exc()}) if lack is None else lack)
            raise
        channel.send(Message(MessageKind.READY))
        while True:
            channel.send(self.answer(channel.receive()))

    def answer(self, request: Message) -> Message:
        """The answer to a request. What a candidate may cause is FAILED; any other exception is a BUG."""
        try:
            with pause_gc():
                return self.handle(request)
        except (ScheduleError, BuildError) as error:
            return failure_message(Failure(error.reason, str(error)))
        except CheckError as error:
            body = {"reason": "unchecked", "detail": error.said, "arguments": error.arguments}
            return Message(MessageKind.FAILED, body)
        except MemoryError as error:
            return failure_message(Failure(Reason.OUT_OF_MEMORY.value, str(error)))
        except Exception as error:  # noqa: BLE001 - it is raised in the parent, with this traceback
            lack = as_resource_error(error, f"the worker's `{request.kind.value}`")
            if lack is not None:
                return lack_message(lack)
            return Message(MessageKind.BUG, {"traceback": traceback.format_exc()})

    def handle(self, request: Message) -> Message:
        if request.kind is MessageKind.BUILD:
            return self.build(candidate_of(request.body))
        if request.kind is MessageKind.LOWER:
            return self.lower(candidate_of(request.body))
        if request.kind is MessageKind.COMPILE:
            return self.compile(request)
        if request.kind is MessageKind.BUILD_WHOLE:
            return self.build_whole(candidate_of(request.body))
        if request.kind is MessageKind.CHECK:
            return self.check(request)
        if request.kind is MessageKind.PREPARE:
            return self._prepare_within(int(request.body["memory_bytes"]), request.body)
        if request.kind is MessageKind.RUN:
            return self.run(request)
        raise ValueError(f"a worker does not answer {request.kind}")

    def _prepare_within(self, memory_bytes: int, body: dict[str, Any]) -> Message:
        limit_memory(memory_bytes)
        try:
            return self.prepare(body)
        finally:
            limit_memory(self.settings.memory_bytes)

    def build(self, candidate: MeasureCandidate) -> Message:
        return self._builder.build(candidate)

    def lower(self, candidate: MeasureCandidate) -> Message:
        return self._builder.lower(candidate)

    def compile(self, request: Message) -> Message:
        return self._builder.compile(request.body, request.blob)

    def build_whole(self, candidate: MeasureCandidate) -> Message:
        return self._builder.build_whole(candidate)

    def check(self, request: Message) -> Message:
        return self._timer.check(request)

    def prepare(self, body: dict[str, Any]) -> Message:
        return self._builder.prepare(body)

    def run(self, request: Message) -> Message:
        return self._timer.run(request)


def failure_message(failure: Failure) -> Message:
    return Message(MessageKind.FAILED, {"reason": failure.reason, "detail": failure.detail})


def lack_message(error: MetaschedError) -> Message:
    return Message(MessageKind.LACK, {"detail": str(error)})


def not_ready(error: Exception) -> Message | None:
    """The message to the parent about an error before the first request; None for an error that is a bug."""
    if isinstance(error, ImportError):  # files, memory, or a part that is not installed
        return Message(
            MessageKind.LACK, {"detail": with_hint(str(error), "`ulimit -a` shows the limits; is all installed?")}
        )
    found = error if isinstance(error, MetaschedError) else as_resource_error(error, "starting")
    return None if found is None else lack_message(found)


def candidate_of(body: dict[str, Any]) -> MeasureCandidate:
    """The candidate of a request to build."""
    params = settings_from_json(body["params"])
    return MeasureCandidate(body["program"], params, body["trace"], body["target"])


def limit_memory(allowance: int) -> None:
    """Let this process reserve `allowance` bytes more than it has now; beyond it, allocating fails."""
    reserved = psutil.Process().memory_info().vms
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = reserved + allowance if hard == resource.RLIM_INFINITY else min(reserved + allowance, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main(worker_type: type[Worker] = Worker) -> None:
    """Be what workers of a type are forked from, and each of them, which serves one parent."""
    settings = serve_workers(worker_type.warm_up)
    if settings.cpus:
        os.sched_setaffinity(0, settings.cpus)
    worker_type(settings).serve(Channel(settings))


if __name__ == "__main__":
    main()
