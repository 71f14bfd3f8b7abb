"""How long a search takes: 64 trials of dense + ReLU 512^3, everything included, and the share of each stage.

`shares` are of the whole time. `setup` is what no other stage is: imports, workers, the database, the kernel at the
end; `guess` making it; `propose` making structures and scoring; `ahead` the same while something is built; `learn`
training the model; `build` waiting for code; `time` what workers took to load, check and time it; `contest` the turns
at the end. `search_share` is the part in which nothing is built or measured. With names of `operators.TWELVE`
(`--only`), it is told of these instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from benchmarks.registry import Options, Result
from benchmarks.tuning import program, tune_program
from metasched.operators import TWELVE
from metasched.search.phases import Phase


def run(options: Options) -> Iterator[Result]:
    trials = 8 if options.quick else 64
    programs = {name: TWELVE[name].program() for name in options.only} or {"dense_relu": program("dense_relu")}
    for name, searched in programs.items():
        start = time.perf_counter()
        kernel = tune_program(searched, trials, 0, options.threads)
        total = time.perf_counter() - start
        phases = kernel.report.phases
        searching = (Phase.GUESS, Phase.SPACE, Phase.SCORING, Phase.MODEL)
        yield {
            "case": f"{name}, {trials} trials",
            "total_s": total,
            "search_share": sum(phases[phase] for phase in searching) / total,
            "shares": {stage: round(seconds / total, 3) for stage, seconds in stages(phases, total).items()},
            "phases_s": {phase: round(seconds, 3) for phase, seconds in phases.items()},
            "failures": dict(kernel.report.failures),
            "threads": options.threads,
        }


def stages(phases: Mapping[str, float], total: float) -> dict[str, float]:
    """Seconds by stage, which add up to the total."""
    contest = phases[Phase.CONTEST]
    timed = max(0.0, min(phases[Phase.RUN] - contest, phases[Phase.MEASURE]))
    found = {
        "guess": phases[Phase.GUESS],
        "propose": phases[Phase.SPACE] + phases[Phase.SCORING],
        "ahead": phases[Phase.AHEAD],
        "build": phases[Phase.MEASURE] - timed,
        "time": timed,
        "learn": phases[Phase.MODEL],
        "contest": contest,
    }
    return {"setup": max(0.0, total - sum(found.values())), **found}
