"""How long a task of a session takes from its first step to its first measurement: the first task, and further ones."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import metasched as ms
from benchmarks.registry import Options, Result

_TASKS: tuple[tuple[str, dict[str, int]], ...] = (
    ("matmul_nn", {"M": 256, "N": 256, "K": 256}),
    ("softmax", {}),
    ("conv2d_nhwc", {}),
    ("layer_norm", {}),
)
_TRIALS = 16


def run(options: Options) -> Iterator[Result]:
    """The first measurement that is finished counts: it has been built, checked, and visited three times."""
    target = ms.Target.detect(threads=options.threads)
    programs = [ms.operator(name, **sizes) for name, sizes in _TASKS]
    first: dict[str, float] = {}
    latencies = []

    def note_first(progress: ms.Progress) -> None:
        first.setdefault(progress.task, time.perf_counter())

    tasks = [ms.Task(program, target=target) for program in programs]
    with ms.TuningSession(tasks, db="sqlite:///:memory:", progress=note_first) as session:
        for program in programs:
            started = time.perf_counter()
            session.step(trials=4 if options.quick else _TRIALS)
            latencies.append(first[program.key] - started)
    for program, latency in zip(programs, latencies, strict=True):
        yield {"case": program.key, "first_measurement_s": latency}
    further = statistics.median(latencies[1:])
    yield {
        "case": f"{len(programs)} tasks, {options.threads} threads",
        "first_task_s": latencies[0],
        "further_tasks_s": further,
        "slowest_further_task_s": max(latencies[1:]),
        "ratio": latencies[0] / further,
    }
