"""How long a candidate takes to compile: seconds of one core from the scheduled program to code that can be called."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

import numpy as np

import metasched as ms
from benchmarks.registry import Options, Result
from benchmarks.tuning import open_space, program
from metasched.errors import BuildError, ScheduleError
from metasched.runtime.compiled import build
from metasched.search.space_protocol import Candidate


def run(options: Options) -> Iterator[Result]:
    count = 8 if options.quick else 100
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    target = ms.Target.detect(threads=options.threads)
    space = open_space("dense_relu", options.threads)
    rng = np.random.default_rng(0)
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    failures: dict[str, int] = {}
    while len(seconds) < count:
        arm = space.draw(rng)
        if arm is None:
            continue
        rows = space[arm].repair(space[arm].sample(rng, 1))
        if not space[arm].mask(rows)[0]:
            continue
        try:
            trace = ms.parse_trace(space.trace(Candidate(arm, tuple(int(v) for v in rows[0]))))
            func = trace.apply_to(program("dense_relu")).func
            start, cpu_start = time.perf_counter(), time.process_time()
            build(func, target)
            seconds.append(time.perf_counter() - start)
            cpu_seconds.append(time.process_time() - cpu_start)
        except (ScheduleError, BuildError) as error:
            failures[error.reason] = failures.get(error.reason, 0) + 1
    # The first compilation initialises LLVM.
    seconds = seconds[1:]
    yield {
        "case": "dense_relu, random candidates of its space",
        "median_s": statistics.median(seconds),
        "median_cpu_s": statistics.median(cpu_seconds[1:]),
        "p90_s": float(np.quantile(seconds, 0.9)),
        "max_s": max(seconds),
        "candidates": len(seconds),
        "failures": failures,
    }
