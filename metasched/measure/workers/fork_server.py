"""The process that workers are forked from: it has imported what they need, so that each starts at once.

It is a program of its own, started by `metasched.measure.workers.worker_server`, and has one thread. It is asked over a
socket, and says over a pipe of each worker, in lines, how that one fares: `pid N` or `errno N` first, `code N` at its
end.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from metasched.support.data_classes import dataclass

LOGGER = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_ORPHAN_CHECK_S = 1.0
_LONGEST_REQUEST = 1 << 16
_FILES = 3  # those of a request to fork: the worker's two pipes, and the one for what becomes of it


@dataclass(frozen=True)
class ServerSettings:
    """What the process is told on its command line, as JSON."""

    parent: int
    connection: int

    @staticmethod
    def parse(text: str) -> ServerSettings:
        return ServerSettings(**json.loads(text))


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker is for. `parent` is the process that it ends with."""

    role: str
    parent: int
    threads: int
    memory_bytes: int
    requests_fd: int
    answers_fd: int
    cpus: Sequence[int] = ()


@dataclass(frozen=True)
class _Forked:
    """A worker that runs: the number it was asked for by, and where its end is told."""

    number: int
    status: int


class ForkServer:
    """Forks workers as it is asked to, and tells how they end."""

    def __init__(self, settings: ServerSettings) -> None:
        self._parent = settings.parent
        self._connection = socket.socket(fileno=settings.connection)
        self._workers: dict[int, _Forked] = {}
        self._ended, self._wake = os.pipe()
        for end in (self._ended, self._wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> WorkerSettings:
        """Fork until the parent ends. Returns in each process that is forked, with what that is for."""
        waiting = select.poll()
        waiting.register(self._connection, select.POLLIN)
        waiting.register(self._ended, select.POLLIN)
        while True:
            ready = [file for file, _ in waiting.poll(_ORPHAN_CHECK_S * 1e3)]
            # A process that the parent forked may hold the socket open after the parent's end.
            if os.getppid() != self._parent:
                os._exit(0)
            if self._ended in ready:
                os.read(self._ended, 1 << 12)
                self._tell_ends()
            if self._connection.fileno() in ready:
                settings = self._answer()
                if settings is not None:
                    return settings

    def _answer(self) -> WorkerSettings | None:
        """Do what the next request asks; the settings of a worker in the process that becomes it."""
        data, files, _, _ = socket.recv_fds(self._connection, _LONGEST_REQUEST, _FILES)
        if not data:
            self._end_all()
        request: dict[str, Any] = json.loads(data)
        number = int(request.pop("number"))
        if not files:
            self._end(number)
            return None
        return self._fork(number, request, files)

    def _end_all(self) -> NoReturn:
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)
        for pid in self._workers:
            os.waitpid(pid, 0)
        os._exit(0)

    def _end(self, number: int) -> None:
        for pid, worker in self._workers.items():
            if worker.number == number:
                os.kill(pid, signal.SIGKILL)

    def _fork(self, number: int, request: dict[str, Any], files: Sequence[int]) -> WorkerSettings | None:
        requests, answers, status = files
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            os.write(status, f"errno {error.errno}\n".encode())
            pid = -1
        if pid == 0:
            self._leave(status)
            _write_to(request.pop("stderr"))
            die_with(server)
            return WorkerSettings(parent=server, requests_fd=requests, answers_fd=answers, **request)
        os.close(requests)
        os.close(answers)
        if pid < 0:
            os.close(status)
        else:
            os.write(status, f"pid {pid}\n".encode())
            self._workers[pid] = _Forked(number, status)
        return None

    def _leave(self, own_status: int) -> None:
        """Let go, in a worker, of what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._connection.close()
        for file in (self._ended, self._wake, own_status, *(worker.status for worker in self._workers.values())):
            os.close(file)

    def _tell_ends(self) -> None:
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            worker = self._workers.pop(pid)
            with suppress(BrokenPipeError):  # nobody asks any more
                os.write(worker.status, f"code {os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(worker.status)


def serve_workers(warm: Callable[[], None]) -> WorkerSettings:
    """Be the server that this program was started as; returns in each worker. `warm` imports what workers need."""
    settings = ServerSettings.parse(sys.argv[1])
    die_with(settings.parent)
    server = ForkServer(settings)
    gc.disable()
    try:
        warm()
    except Exception:  # each worker meets the same error, and tells it
        LOGGER.warning("what workers need could not be imported ahead", exc_info=True)
    # What was imported stays: collections in workers neither visit it nor write to its memory, which all of them share.
    gc.freeze()
    gc.enable()
    return server.serve()


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":  # elsewhere, the end of the pipe has to do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before this was said
        os._exit(0)


def _write_to(path: str) -> None:
    """Have standard output and error go to a file, from its beginning."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
