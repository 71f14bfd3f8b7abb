"""The process that workers are forked from, seen from their parent: started when the first is wanted, and again when it
has ended.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from metasched.measure.records import RunnerClosed
from metasched.measure.workers.fork_server import ServerSettings

LOGGER = logging.getLogger(__name__)

_TICK_S = 1.0
_PATIENCE_S = 0.2  # one that still imports does not hear of its end


class _Server:
    """A server that was started, and our end of its socket. May be used by several threads."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.process = process
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, request: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        """Send a request. One that has ended gets none: whoever waits for its workers finds that they ended, too."""
        with self._lock, suppress(BrokenPipeError, ConnectionResetError):
            if self._connection.fileno() >= 0:
                socket.send_fds(self._connection, [json.dumps(request).encode()], files)

    def end(self) -> None:
        """End it with all its workers: by itself, so that their time counts as that of our children, or by force."""
        with self._lock:
            self._connection.close()
        try:
            self.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ForkedProcess:
    """A worker that was asked for. May be used by several threads."""

    def __init__(self, number: int, status: int, server: _Server) -> None:
        os.set_blocking(status, False)
        self._number = number
        self._status = status
        self._server = server
        self._text = b""
        self._told: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process, once it is there."""
        if "pid" not in self._told:
            self._listen()
        return self._told.get("pid")

    @property
    def lack(self) -> OSError | None:
        """Why there can be no process, if there can be none."""
        number = self._told.get("errno")
        return None if number is None else OSError(number, os.strerror(number))

    def poll(self) -> int | None:
        """The status that it ended with, or None: a negative number is that of a signal, as `subprocess` has it.

        The status of the server where that ended, and all its workers with it.
        """
        self._listen()
        return self._told.get("code")

    def wait_for(self, seconds: float) -> int | None:
        """The status that it ended with; None when its end does not come in time."""
        end = time.monotonic() + seconds
        while (code := self.poll()) is None and (left := end - time.monotonic()) > 0:
            waited_for(self._status, select.POLLIN, left)
        return code

    def wait(self) -> int:
        """The status that it ended with, however long that takes."""
        while (code := self.wait_for(_TICK_S)) is None:
            pass
        return code

    def kill(self) -> None:
        self._server.send({"number": self._number})

    def close(self) -> None:
        """Hear no more of it."""
        with self._lock:
            self._closed = True
            os.close(self._status)

    def _listen(self) -> None:
        """Take note of what has been told by now."""
        with self._lock:
            while not self._closed and "code" not in self._told:
                try:
                    data = os.read(self._status, 1 << 10)
                except BlockingIOError:
                    return
                if not data:
                    self._told["code"] = 1 if "errno" in self._told else self._server.process.wait()
                *lines, self._text = (self._text + data).split(b"\n")
                for line in lines:
                    what, number = line.decode().split()
                    self._told[what] = int(number)


class WorkerServer:
    """Forks workers, from a process that runs `module`. `folder` takes its standard error, `threads` is the most that a
    worker starts. May be used by several threads.
    """

    def __init__(self, module: str, folder: Path, threads: int) -> None:
        self.module = module
        self.stderr = folder / "workers.stderr"
        self._threads = threads
        # The kernel ends a process when the *thread* that started it ends.
        self._starter = ThreadPoolExecutor(1, "metasched-spawn")
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._closed = False

    def fork(self, settings: Mapping[str, Any], requests: int, answers: int) -> ForkedProcess:
        """A worker with these settings (`WorkerSettings`, `stderr`) and its ends of two pipes, which stay open here.

        It need not be there yet. Raises OSError where no process can be started, RunnerClosed after `close`.
        """
        with self._lock, ExitStack() as theirs:
            if self._closed:
                raise RunnerClosed("the runner was closed while this was measured")
            if self._server is None or self._server.process.poll() is not None:
                self._replace()
            server = self._server
            assert server is not None
            number = next(self._numbers)
            told, tells = os.pipe()
            theirs.callback(os.close, tells)
            server.send({"number": number, **settings}, (requests, answers, tells))
            return ForkedProcess(number, told, server)

    def close(self) -> None:
        """End the server, and with it all workers. Twice does no harm."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
        if server is not None:
            server.end()
        self._starter.shutdown()

    def _replace(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None
        self._server = self._starter.submit(self._start).result()

    def _start(self) -> _Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ExitStack() as failed, self.stderr.open("wb") as stderr:
            failed.callback(ours.close)
            # Not on standard input: what prints while the interpreter starts must not get between the messages.
            settings = ServerSettings(os.getpid(), theirs.fileno())
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", self.module, json.dumps(asdict(settings))],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                pass_fds=(theirs.fileno(),),
                env=_environment(self._threads),
                # A group of its own, so that Ctrl-C in the terminal reaches the parent only.
                process_group=0,
            )
            failed.pop_all()
        LOGGER.debug("process %d started, which workers are forked from", process.pid)
        return _Server(process, ours)


def waited_for(file: int, event: int, seconds: float) -> bool:
    """Wait until `event` (POLLIN, POLLOUT), or its end, can be had of a pipe; unlike `select`, of any number."""
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(seconds * 1e3))


def _environment(threads: int) -> dict[str, str]:
    """The parent's environment, such that the worker imports what the parent imports."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    # Candidates run on threads of their own; a BLAS pool would only compete with them.
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment[name] = "1"
    environment["NUMBA_NUM_THREADS"] = str(max(threads, len(os.sched_getaffinity(0))))
    return environment
