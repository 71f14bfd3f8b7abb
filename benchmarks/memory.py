"""Whether memory is bounded: growth of the parent, and the peak of a worker, over 1,000 candidates of one program."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import psutil

import metasched as ms
from benchmarks.registry import Options, Result
from benchmarks.tuning import program
from metasched.measure.records import Limits
from metasched.report.progress import Progress

_WARM_TRIALS = 64  # by then everything that is loaded once has been loaded
_MB = 1e6


def run(options: Options) -> Iterator[Result]:
    trials = 96 if options.quick else 1000
    process = psutil.Process()
    parent: list[float] = []
    workers: list[float] = []

    def watch(progress: Progress) -> None:
        if progress.trials >= _WARM_TRIALS:
            parent.append(process.memory_info().rss / _MB)
            workers.append(max((child.memory_info().rss / _MB for child in process.children()), default=0.0))

    with tempfile.TemporaryDirectory() as folder:
        target = ms.Target.detect(threads=options.threads)
        db = f"sqlite:///{folder}/records.db"
        ms.tune(program("dense_relu"), trials=trials, db=db, target=target, progress=watch)
    yield {
        "case": f"dense_relu, {trials} candidates",
        "parent_mb": parent[-1],
        "parent_growth_mb": parent[-1] - parent[0],
        "worker_max_mb": max(workers),
        "worker_limit_mb": Limits().memory_bytes / _MB,
    }
