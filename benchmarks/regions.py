"""Six small nests that depend on one another, in one kernel: in one parallel region, in six, and on one thread.

Alone, and beside as many busy processes as there are processors. All sides are kernels of one process, in alternating
blocks. A time is a mean: most calls meet no neighbour, and few take very long.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from enum import Enum

import numpy as np

import metasched as ms
from benchmarks.blocks import block
from benchmarks.registry import Options, Result

_SHAPE = (128, 256)
_ROUNDS = 5
_BUSY_CODE = "while True: pass"
# Each stage reads what the other half of the rows of the one before has written.
_PROGRAM = """
program nests[N=128, M=256](X: f32[N, M]) -> F: f32[N, M]:
    A[i, j] = exp(X[i, j])
    B[i < N, j] = A[N - 1 - i, j] * 2 + X[i, j]
    C[i < N, j] = sqrt(B[N - 1 - i, j]) + B[i, j]
    D[i < N, j] = exp(C[N - 1 - i, j]) - A[i, j]
    E[i < N, j] = log(D[N - 1 - i, j] + 8) + C[i, j]
    F[i < N, j] = E[N - 1 - i, j] / B[i, j]
"""
_NESTS = "ABCDEF"


class Side(Enum):
    """How the nests run; the value says so."""

    MERGED = "one region with barriers"
    APART = "a region for each nest"
    ALONE = "one thread"


def run(options: Options) -> Iterator[Result]:
    rounds = 1 if options.quick else _ROUNDS
    processors = len(os.sched_getaffinity(0))
    x = np.ones(_SHAPE, np.float32)
    kernels = {side: _kernel(side, options.threads) for side in Side}
    for neighbours in (0, processors):
        samples: dict[Side, list[float]] = {side: [] for side in Side}
        with ExitStack() as stack:
            for _ in range(neighbours):
                process = subprocess.Popen([sys.executable, "-c", _BUSY_CODE])
                stack.callback(process.wait)
                stack.callback(process.kill)
            for _ in range(rounds):
                for side, kernel in kernels.items():
                    y = kernel(x)
                    samples[side].append(statistics.mean(block(lambda kernel=kernel, y=y: kernel(x, out=y))))  # type: ignore[misc]
        ours, *peers = (statistics.median(found) * 1e3 for found in samples.values())
        for peer, milliseconds in zip((Side.APART, Side.ALONE), peers, strict=True):
            yield {
                "case": f"{len(_NESTS)} nests in one region of {options.threads} threads beside {neighbours} busy "
                "processes",
                "ours_ms": ours,
                "peer": peer.value,
                "peer_ms": milliseconds,
                "ratio": milliseconds / ours,
            }


def _kernel(side: Side, threads: int) -> ms.Kernel:
    program = ms.parse_program(_PROGRAM)
    schedule = ms.Schedule(program)
    nests = [schedule.get_loops(schedule.get_block(name)) for name in _NESTS]
    for rows, columns in nests:
        schedule.vectorize(columns, lanes=16)
        if side is not Side.ALONE:
            schedule.parallel(rows)
    if side is Side.MERGED:
        schedule.merge_parallel(*(rows for rows, _ in nests))
    return ms.compile(program, trace=schedule.trace, target=ms.Target.detect(threads=threads))
