"""Small parallel regions beside busy processes: on several threads against one, and against OpenMP's.

Each side is a process of its own (`python -m benchmarks.neighbours SIDE THREADS SECONDS` prints its time); the sides
take turns. A time is a mean: most calls meet no neighbour, and few take very long.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum

from benchmarks.openmp import use_openmp
from benchmarks.registry import Options, Result

REGIONS = 6
_SHAPE = (512, 1024)
_SECONDS = 2.0
_ROUNDS = 3
_BUSY_CODE = "while True: pass"
_PROGRAM = """
program rows[N=512, M=1024](X: f32[N, M]) -> Y: f32[N, M]:
    Y[i, j] = exp(sin(X[i, j])) + log(X[i, j] * X[i, j] + 1.0)
"""


class Side(Enum):
    """What runs the regions; the value says so."""

    OURS = "this package"
    ALONE = "this package on one thread"
    OPENMP = "the same kernel on Numba's OpenMP threads"


def run(options: Options) -> Iterator[Result]:
    rounds = 1 if options.quick else _ROUNDS
    processors = len(os.sched_getaffinity(0))
    for neighbours in (0, processors, 2 * processors):
        samples: dict[Side, list[float]] = {side: [] for side in Side}
        with ExitStack() as stack:
            for _ in range(neighbours):
                process = subprocess.Popen([sys.executable, "-c", _BUSY_CODE])
                stack.callback(process.wait)
                stack.callback(process.kill)
            for _ in range(rounds):
                for side, found in samples.items():
                    found.append(_measure_side(options, side))
        ours, *peers = (statistics.median(found) for found in samples.values())
        for peer, milliseconds in zip((Side.ALONE, Side.OPENMP), peers, strict=True):
            yield {
                "case": f"{REGIONS} regions of {options.threads} threads beside {neighbours} busy processes",
                "ours_ms": ours,
                "peer": peer.value,
                "peer_ms": milliseconds,
                "ratio": milliseconds / ours,
            }


def _measure_side(options: Options, side: Side) -> float:
    seconds = 0.3 if options.quick else _SECONDS
    command = [sys.executable, "-m", "benchmarks.neighbours", side.name, str(options.threads), str(seconds)]
    env = os.environ | {"NUMBA_NUM_THREADS": str(options.threads)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def time_calls(side: Side, threads: int, seconds: float) -> float:
    """Milliseconds of six regions, one after another: the mean over about so many seconds."""
    import numpy as np

    import metasched as ms

    program = ms.parse_program(_PROGRAM)
    schedule = ms.Schedule(program)
    rows, columns = schedule.get_loops(schedule.get_block("Y"))
    schedule.parallel(rows)
    schedule.vectorize(columns, lanes=16)
    target = ms.Target.detect(threads=1 if side is Side.ALONE else threads)
    kernel = ms.compile(program, trace=schedule.trace, target=target)
    if side is Side.OPENMP:
        use_openmp()
    x = np.ones(_SHAPE, np.float32)
    y = kernel(x)
    times = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        for _ in range(REGIONS):
            kernel(x, out=y)
        times.append(time.perf_counter() - start)
    return statistics.mean(times) * 1e3


if __name__ == "__main__":
    print(time_calls(Side[sys.argv[1]], int(sys.argv[2]), float(sys.argv[3])))
