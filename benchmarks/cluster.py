"""How the tuning of a network's tasks scales with machines: a real dask cluster, whose machines take a fixed time.

Each simulated machine needs half a second for a candidate, as real ones do for small kernels, and makes its time up; so
what is measured is the search, the scheduler and the connections, on whatever machine this is. Everything is in the
time: spaces, guesses, proposals, and the turns at the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.registry import Options, Result
from metasched.measure.cluster.address import SchedulerAddress
from metasched.measure.cluster.connection import Connection
from metasched.measure.cluster.runner import ClusterRunner
from metasched.operators.named import program_named
from metasched.search.session import TuningSession
from metasched.search.task import Task
from metasched.target import Target

MACHINES = (1, 2, 4)
_DELAY_S = 0.5
_TRIALS = 16  # of each task
_SIZES = (64, 96, 128, 160, 192, 224, 256, 320)
_STARTS_S = 60.0


def run(options: Options) -> Iterator[Result]:
    sizes = _SIZES[:2] if options.quick else _SIZES
    trials = 4 if options.quick else _TRIALS
    alone = None
    for machines in (MACHINES[0], MACHINES[-1]) if options.quick else MACHINES:
        seconds, made = time_tuning(machines, sizes, trials, options.threads)
        alone = alone or seconds
        yield {
            "case": f"{machines} machines",
            "tasks": len(sizes),
            "trials": made,
            "delay_s": _DELAY_S,
            "seconds": seconds,
            "of_one_machine": seconds / alone,
        }


def time_tuning(machines: int, sizes: tuple[int, ...], trials: int, threads: int) -> tuple[float, int]:
    """The seconds that so many trials of each task take, and how many were made in all."""
    target = Target.detect(threads)
    with cluster(machines, target) as runner, tempfile.TemporaryDirectory() as folder:
        tasks = [Task(program_named("op:matmul_nn", M=n, N=n, K=n), "cpu", target) for n in sizes]
        began = time.perf_counter()
        with TuningSession(
            tasks, db=f"sqlite:///{folder}/t.db", runner=runner, scheduler="gradient", progress=False
        ) as session:
            reports = session.run(total=trials * len(tasks))
        return time.perf_counter() - began, sum(report.records for report in reports)


@contextmanager
def cluster(machines: int, target: Target) -> Iterator[ClusterRunner]:
    """A runner on so many simulated machines, each a process of its own, as is the scheduler."""
    with ExitStack() as own:
        folder = Path(own.enter_context(tempfile.TemporaryDirectory()))
        found = folder / "scheduler.json"
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        _start_process(own, [*scheduler, "--no-dashboard", "--scheduler-file", str(found)])
        address = SchedulerAddress.parse(_address_in(found))
        settings = json.dumps({"target": str(target), "delay_s": _DELAY_S})
        for _ in range(machines):
            _start_process(own, [sys.executable, "-m", "benchmarks.simulated_machine", str(address), settings])
        connection = Connection(address, _STARTS_S)
        until = time.monotonic() + _STARTS_S
        while len(connection.machines()) < machines and time.monotonic() < until:
            time.sleep(0.1)
        runner = ClusterRunner(connection)
        own.callback(runner.close)
        yield runner


def _start_process(own: ExitStack, command: list[str]) -> None:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own.callback(process.wait)
    own.callback(process.kill)


def _address_in(file: Path) -> str:
    """The address that a scheduler has written to a file, once it is there."""
    until = time.monotonic() + _STARTS_S
    while time.monotonic() < until:
        try:
            return str(json.loads(file.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError):
            time.sleep(0.1)
    raise TimeoutError("the scheduler did not start")
