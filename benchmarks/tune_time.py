"""How long a search takes: 64 trials of dense + ReLU 512^3, everything included, and where the time went.

`search_share` is the part of the time in which nothing is built or measured: making the space, proposing candidates,
training the model. With names of `operators.TWELVE` (`--only`), it is told of these instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.registry import Options, Result
from benchmarks.tuning import program, tuned
from metasched.operators import TWELVE
from metasched.search.phases import Phase


def run(options: Options) -> Iterator[Result]:
    trials = 8 if options.quick else 64
    programs = {name: TWELVE[name].program() for name in options.only} or {"dense_relu": program("dense_relu")}
    for name, searched in programs.items():
        start = time.perf_counter()
        kernel = tuned(searched, trials, 0, options.threads)
        total = time.perf_counter() - start
        phases = kernel.report.phases
        yield {
            "case": f"{name}, {trials} trials",
            "total_s": total,
            "search_share": sum(phases[phase] for phase in (Phase.SPACE, Phase.SCORING, Phase.MODEL)) / total,
            "phases_s": {phase: round(seconds, 3) for phase, seconds in phases.items()},
            "failures": dict(kernel.report.failures),
            "threads": options.threads,
        }
