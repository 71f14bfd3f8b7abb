"""A worker that does what its candidate's trace says: crash, hang, hoard, lie. Forked from `-m faulty_worker`.

A trace here is a fault's name, which happens in the builder when it is written `build:FAULT`, else in the runner.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from metasched.errors import BuildError, ScheduleError
from metasched.measure.records import MeasureCandidate, Reason
from metasched.measure.workers.protocol import Message, MessageKind
from metasched.measure.workers.worker import Failure, Worker, failure_message, main


def hoard() -> None:
    """Touches what it takes."""
    held = []
    while True:
        held.append(np.ones(1 << 22))


def reserve() -> None:
    """Asks for too much at once."""
    np.empty(1 << 40, np.uint8)


# What happens while a worker starts or prepares: METASCHED_TEST_FAULT is such a name, with `*N` for the first N times
# only, and METASCHED_TEST_FOLDER has a file for each time.
EARLY: dict[str, Callable[[], object]] = {
    "start": lambda: raised(RuntimeError("cannot start, on purpose")),
    "start:import": lambda: raised(ImportError("libx.so: cannot open shared object file: Too many open files")),
    "start:full": lambda: raised(OSError(errno.ENOSPC, "any")),
    "start:kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "start:exit": lambda: (print("the reason", file=sys.stderr, flush=True), os._exit(1)),
    "prepare:kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "prepare:much": lambda: np.ones(50 << 20),  # 400 MiB
    "prepare:hoard": hoard,
    "prepare:reserve": reserve,
    "prepare:full": lambda: raised(OSError(errno.ENOSPC, "any")),
    "build:full": lambda: raised(OSError(errno.ENOSPC, "any")),
}


def raised(error: Exception) -> None:
    raise error


def no_process() -> NoReturn:
    raise BlockingIOError(errno.EAGAIN, "any")


def early(when: str) -> None:
    name, _, times = os.environ.get("METASCHED_TEST_FAULT", "").partition("*")
    if name.partition(":")[0] != when:
        return
    if times:
        folder = Path(os.environ["METASCHED_TEST_FOLDER"])
        if len(list(folder.iterdir())) >= int(times):
            return
        (folder / str(os.getpid())).touch()
    EARLY[name]()


class FaultyWorker(Worker):
    @classmethod
    def warm_up(cls) -> None:
        """It needs nothing. The fault `fork` is that of the process that workers are forked from."""
        if os.environ.get("METASCHED_TEST_FAULT") == "fork":
            os.fork = no_process

    def preload(self) -> None:
        early("start")

    def prepare(self, body: dict[str, Any]) -> Message:
        del body
        early("prepare")
        return Message(MessageKind.DONE)

    def build(self, candidate: MeasureCandidate) -> Message:
        early("build")
        if candidate.trace.startswith("build:"):
            misbehave(candidate.trace.removeprefix("build:"))
        body = {
            "artefact": {"trace": candidate.trace, "ahead": None},
            "code": candidate.trace,
            "phases": {"build": 0.5},
        }
        return Message(MessageKind.DONE, body, b"code")

    def lower(self, candidate: MeasureCandidate) -> Message:
        return self.build(candidate)

    def compile(self, request: Message) -> Message:
        return Message(MessageKind.DONE, request.body, request.blob)

    def run(self, request: Message) -> Message:
        trace = request.body["artefact"]["trace"]
        if not trace.startswith("build:"):
            answer = misbehave(trace)
            if answer is not None:
                return answer
        assert request.blob == b"code"
        times = [0.25, request.body["best_s"] or 0.25]
        return Message(MessageKind.DONE, {"times": times, "prologue_seconds": None, "phases": {"run": 0.25}})


def hang() -> None:
    time.sleep(600)


def spin() -> None:
    """In native code, with the interpreter's lock released."""
    ctypes.CDLL(None).pause()


def noise() -> None:
    print("noise", flush=True)
    os.write(1, b"more noise\n")
    ctypes.CDLL(None).puts(b"noise from C")
    ctypes.CDLL(None).fflush(None)
    assert sys.stdin.read() == ""


def bug() -> None:
    raise ZeroDivisionError("a bug, on purpose")


def schedule_error() -> None:
    raise ScheduleError("split", "loop `i` is gone", hint="do not")


def build_error() -> None:
    raise BuildError("register tile too large", "details")


def timed(*times: float) -> Message:
    return Message(MessageKind.DONE, {"times": times, "prologue_seconds": None, "phases": {}})


FAULTS: dict[str, Callable[[], Message | None]] = {
    "good": lambda: None,
    "slow": lambda: timed(0.25, 0.25),
    "clock": lambda: timed(time.monotonic()),
    "segv": lambda: ctypes.string_at(0) and None,
    "abort": os.abort,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit 1": lambda: os._exit(1),
    "exit 3": lambda: os._exit(3),
    "hang": hang,
    "spin": spin,
    "hoard": hoard,
    "reserve": reserve,
    "print": noise,
    "bug": bug,
    "schedule": schedule_error,
    "backend": build_error,
    "wrong": lambda: failure_message(Failure(Reason.WRONG_RESULT.value, "on purpose")),
    "inputs": lambda: failure_message(Failure(Reason.INPUTS_MODIFIED.value, "on purpose")),
    "pid": lambda: failure_message(Failure(f"pid {os.getpid()}")),
}


def misbehave(fault: str) -> Message | None:
    return FAULTS[fault]()


if __name__ == "__main__":
    main(FaultyWorker)
