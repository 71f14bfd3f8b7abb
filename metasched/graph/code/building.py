"""Builder processes: machine code of many tasks side by side, the longest programs first."""

from __future__ import annotations

import os
import queue
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

from metasched.errors import BuildError, BuildWarning, ResourceError, callers_level
from metasched.graph.code.archive import from_bytes
from metasched.graph.code.builder_worker import WantedCode, request
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.step_code import TaskCode
from metasched.ir.program import Program
from metasched.measure.records import Limits, WorkerBug
from metasched.measure.workers.process import Loss, WorkerLost, WorkerProcess, WorkerRole, WorkerSpec
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.measure.workers.temporary import TemporaryFolder, remove_abandoned
from metasched.measure.workers.worker_server import WorkerServer
from metasched.support.messages import with_hint
from metasched.target import Target

_MODULE = "metasched.graph.code.builder_worker"
# The guess of a large program is a search; on a machine that is busy it takes a multiple of its seconds.
_LIMITS = Limits(build_s=300.0)
_MOST_BUILDERS = 16


class BuilderProcesses:
    """Builder processes, which end with the block that this is the context of, however it ends.

    Those that are begun before anything is to be built get ready beside other work of the caller.
    """

    def __init__(self, module: str = _MODULE) -> None:
        self._module = module
        self._stack = ExitStack()
        self._workers: list[WorkerProcess] = []
        self._start: Callable[[int], WorkerProcess] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def start_processes(self, wanted: int) -> None:
        """Have no fewer processes than this, of those that there may be: they get ready by themselves.

        Raises ResourceError where there can be none.
        """
        while len(self._workers) < min(wanted, most_builders()):
            if self._start is None:
                self._start = self._starter()
            self._workers.append(self._start(len(self._workers)))

    def _starter(self) -> Callable[[int], WorkerProcess]:
        remove_abandoned()
        folder = TemporaryFolder()
        self._stack.callback(folder.close)
        server = WorkerServer(self._module, folder.path, 1)
        ended = self._stack.enter_context(ExitStack())
        self._stack.callback(server.close)

        def start(number: int) -> WorkerProcess:
            worker = WorkerProcess(WorkerSpec(WorkerRole.BUILDER, f"tasks-{number}", 1, folder.path), _LIMITS, server)
            ended.callback(worker.kill)  # once the server has ended, which ends all of them at once
            self._stack.callback(worker.close)
            worker.start()
            return worker

        return start

    def build(self, wanted: Mapping[str, WantedCode], target: Target, made: Callable[[str, TaskCode], None]) -> None:
        """Have machine code of tasks made; `made` is called with each, in this thread.

        A task over which two processes end is built as it is written, with a BuildWarning: a stopgap, as another time
        may be better. An interrupt loses nothing
        that was handed over. Raises ScheduleError and BuildError where a chosen schedule cannot be applied or compiled,
        ResourceError where there can be no processes.
        """
        self.start_processes(len(wanted))
        order = sorted(wanted, key=lambda key: _length(wanted[key].program), reverse=True)
        done: queue.SimpleQueue[tuple[str, TaskCode]] = queue.SimpleQueue()
        idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        for worker in self._workers:
            idle.put(worker)

        def build(key: str) -> None:
            worker = idle.get()
            try:
                done.put((key, _build_code(worker, wanted[key], target)))
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(len(self._workers), "metasched-build") as threads, ExitStack() as ending:
            for worker in self._workers:
                ending.callback(worker.close)
            ending.callback(threads.shutdown, wait=False, cancel_futures=True)
            futures = {threads.submit(build, key) for key in order}
            while futures:
                finished, futures = wait(futures, timeout=0.05, return_when=FIRST_EXCEPTION)
                while not done.empty():
                    made(*done.get())
                for future in finished:
                    future.result()
            while not done.empty():
                made(*done.get())


def _length(program: Program) -> tuple[int, int]:
    """What says how long a program's code takes to be made: mostly how much the program says, not how much it does."""
    return len(program.definition.stages), len(str(program))


def most_builders() -> int:
    """How many builder processes there may be here."""
    return min(len(os.sched_getaffinity(0)), _MOST_BUILDERS)


def _build_code(worker: WorkerProcess, wanted: WantedCode, target: Target) -> TaskCode:
    """The code of a task, by a builder; as it is written where two processes end over its schedule."""
    program = wanted.program
    try:
        return _request_code(worker, wanted, target)
    except WorkerLost as first:
        if not first.how.may_pass and first.how is not Loss.TIMEOUT:
            lost = first
        else:
            try:
                return _request_code(worker, wanted, target)
            except WorkerLost as second:
                lost = second
    warnings.warn(
        with_hint(
            f"{program.key} runs as it is written, which is slow: building its schedule failed ({lost.reason})",
            f"`ms.compile(program)` with this program shows it:\n{program}",
        ),
        BuildWarning,
        stacklevel=callers_level(),
    )
    as_written = Choice(None, ScheduleOrigin.AS_WRITTEN, lost.reason)
    return replace(_request_code(worker, replace(wanted, choice=as_written), target), is_stopgap=True)


def _request_code(worker: WorkerProcess, wanted: WantedCode, target: Target) -> TaskCode:
    program = wanted.program
    answer = worker.request(request(wanted, target), _LIMITS.build_s)
    if answer.kind is MessageKind.DONE:
        return from_bytes(answer.blob)
    raise _error(answer, program)


def _error(answer: Message, program: Program) -> Exception:
    body = answer.body
    if answer.kind is MessageKind.FAILED:
        return BuildError(str(body["reason"]), f"{program.key}: {body['detail']}")
    if answer.kind is MessageKind.LACK:
        return ResourceError(f"building {program.key} failed: {body['detail']}")
    return WorkerBug(f"a builder raised an exception over {program.key}", str(body.get("traceback", body)))
