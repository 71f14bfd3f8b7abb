"""Small parallel regions beside busy processes, with OpenMP's threads spinning and asleep while they wait.

Each side is a process of its own (`python -m benchmarks.neighbours THREADS SECONDS` prints its time), as OpenMP reads
the policy when it starts; the sides take turns. A time is a mean: most calls meet no neighbour, and few take very long.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.registry import Options, Result
from metasched.runtime.neighbours import SETTINGS

REGIONS = 6
_SECONDS = 2.0
_ROUNDS = 3
_PASSIVE, _DEFAULT = "passive", ""
_BUSY = "while True: pass"
_PROGRAM = """
program rows[N=512, M=1024](X: f32[N, M]) -> Y: f32[N, M]:
    Y[i, j] = exp(sin(X[i, j])) + log(X[i, j] * X[i, j] + 1.0)
"""


def run(options: Options) -> Iterator[Result]:
    rounds = 1 if options.quick else _ROUNDS
    processors = len(os.sched_getaffinity(0))
    for neighbours in (0, processors, 2 * processors):
        samples: dict[str, list[float]] = {_PASSIVE: [], _DEFAULT: []}
        with ExitStack() as stack:
            for _ in range(neighbours):
                process = subprocess.Popen([sys.executable, "-c", _BUSY])
                stack.callback(process.wait)
                stack.callback(process.kill)
            for _ in range(rounds):
                for policy, found in samples.items():
                    found.append(_side(options, policy))
        ours, peer = (statistics.median(samples[policy]) for policy in (_PASSIVE, _DEFAULT))
        yield {
            "case": f"{REGIONS} regions of {options.threads} threads beside {neighbours} busy processes",
            "ours_ms": ours,
            "peer": "threads that spin, without OMP_WAIT_POLICY",
            "peer_ms": peer,
            "ratio": peer / ours,
        }


def _side(options: Options, policy: str) -> float:
    seconds = 0.3 if options.quick else _SECONDS
    command = [sys.executable, "-m", "benchmarks.neighbours", str(options.threads), str(seconds)]
    env = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    env |= {"NUMBA_THREADING_LAYER": "omp"} | ({"OMP_WAIT_POLICY": policy} if policy else {})
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout)


def side(threads: int, seconds: float) -> float:
    """Milliseconds of six regions, one after another: the mean over about so many seconds."""
    import numpy as np

    import metasched as ms

    program = ms.parse_program(_PROGRAM)
    schedule = ms.Schedule(program)
    rows, columns = schedule.get_loops(schedule.get_block("Y"))
    schedule.parallel(rows)
    schedule.vectorize(columns, lanes=16)
    kernel = ms.compile(program, trace=schedule.trace, target=ms.Target.detect(threads=threads))
    x = np.ones((512, 1024), np.float32)
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
    print(side(int(sys.argv[1]), float(sys.argv[2])))
