"""How long a search takes: 64 trials of dense + ReLU 512^3, everything included, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.registry import Options, Result
from benchmarks.tuning import tuned_kernel


def run(options: Options) -> Iterator[Result]:
    trials = 8 if options.quick else 64
    start = time.perf_counter()
    kernel = tuned_kernel("dense_relu", trials=trials, seed=0, threads=options.threads)
    total = time.perf_counter() - start
    yield {
        "case": f"dense_relu, {trials} trials",
        "total_s": total,
        "phases_s": {name: round(seconds, 3) for name, seconds in kernel.report.phases.items()},
        "failures": dict(kernel.report.failures),
        "threads": options.threads,
    }
