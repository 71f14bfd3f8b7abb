"""A dask cluster of several processes: a scheduler and simulated machines, forked from one that has imported dask."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.simulated_machine import SimulatedMachine
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.connection import Connection
from metasched.measure.cluster.runner import ClusterRunner, ClusterSettings
from metasched.measure.cluster.worker import serve
from metasched.measure.workers.fork_server import die_with
from metasched.target import Target

TARGET = Target("generic", frozenset({"avx2", "fma"}), 2, 32768, 1 << 20, 1 << 25, 64)
SETTINGS = ClusterSettings(patience_s=20.0, silent_s=1.5, look_s=0.1)


@dataclass
class Cluster(AbstractContextManager["Cluster"]):
    """A scheduler, and machines that tests start and lose."""

    folder: Path
    machines: list[int] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._forker = subprocess.Popen(
            [sys.executable, "-m", "tests.support.cluster"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.address = SchedulerAddress.parse(self._ask(["scheduler"])[1])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lose_all()
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.close()
        self._forker.wait(30)
        self._forker.stdout.close()
        left_open = sum(connection.is_open for connection in self.connections)
        assert not left_open, f"{left_open} connections of runners were left open"

    @property
    def log(self) -> Path:
        return self.folder / "machines.log"

    def logged(self, what: str) -> list[dict[str, Any]]:
        """What the machines have noted of one kind."""
        if not self.log.exists():
            return []
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line for line in lines if line["what"] == what]

    def start(self, **settings: object) -> int:
        """Start a machine, and return its process once it has joined."""
        pid, _ = self._ask(["machine", str(self.address), {"target": str(TARGET), "log": str(self.log), **settings}])
        self.machines.append(pid)
        return pid

    def lose(self, pid: int) -> None:
        """Kill a machine."""
        self.machines.remove(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def lose_all(self) -> None:
        for pid in tuple(self.machines):
            self.lose(pid)
        self.log.unlink(missing_ok=True)

    def runner(self, **settings: Any) -> ClusterRunner:
        """A runner, once the machines that are gone have left."""
        connection = Connection(self.address, 10.0)
        self.connections.append(connection)
        until = time.monotonic() + 300
        while len(connection.machines()) != len(self.machines):
            assert time.monotonic() < until, "machines that were lost have not left the scheduler"
            time.sleep(0.02)
        return ClusterRunner(connection, ClusterSettings(**{**vars(SETTINGS), **settings}))

    def _ask(self, request: list[object]) -> tuple[int, str]:
        assert self._forker.stdin is not None
        assert self._forker.stdout is not None
        self._forker.stdin.write(f"{json.dumps(request)}\n")
        self._forker.stdin.flush()
        pid, address = json.loads(self._forker.stdout.readline())
        return pid, address


def _tell(address: str) -> None:
    print(json.dumps([os.getpid(), address]), flush=True)


async def _scheduler() -> None:
    from distributed import Scheduler

    scheduler = await Scheduler(host="127.0.0.1", port=0, dashboard=False)
    _tell(str(scheduler.address))
    await scheduler.finished()


def main() -> None:
    """Fork what is asked for, a line of JSON each, until there is none."""
    import distributed  # noqa: F401 - so that what is forked has it

    own = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        kind, *arguments = json.loads(line)
        if os.fork():
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with(own)
        if kind == "scheduler":
            asyncio.run(_scheduler())
        else:
            address, settings = arguments
            serve(SchedulerAddress.parse(address), SimulatedMachine(**settings), None, _tell)
        os._exit(0)


if __name__ == "__main__":
    main()
