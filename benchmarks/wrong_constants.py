"""What a search loses by wrong constants: each of them 2 to 4 times too large or too small, by chance.

A search with the constants that this machine has measured (`metasched calibrate`; else the defaults) is beside it, with
the same seed. Neither measures a guess or an expert trace, so that nothing is found that the model did not like.

A line is printed when a pair of searches is done, which takes a minute or less: `--only DEP` and `--seeds 0,1` make a
part of it. The summary over the lines of several parts, as `--json` prints them, is

    python -m benchmarks.wrong_constants FILE ...
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

import metasched as ms
from benchmarks.registry import Options, Result
from metasched.calibration.store import core_of
from metasched.cost.core import Core
from metasched.errors import MetaschedError
from metasched.operators import TWELVE

_SEEDS = 5
# Layers whose candidates take a millisecond or less: the others differ in nothing but how long this takes.
_NAMES = ("C1D", "DEP", "GMM", "SFM", "T2D")
_LEAST, _MOST = 2.0, 4.0


def wrong_core(core: Core, seed: int) -> Core:
    """Constants each of which is 2 to 4 times too large or too small, by the seed; those of intrinsics are as they
    are."""
    draw = random.Random(seed)
    numbers = {field.name: getattr(core, field.name) for field in fields(Core) if field.name != "throughputs"}
    wrong = {name: value * draw.uniform(_LEAST, _MOST) ** draw.choice((-1, 1)) for name, value in numbers.items()}
    return replace(core, **wrong)


def run(options: Options) -> Iterator[Result]:
    """A line for each layer and seed, and the summary."""
    target = ms.Target.detect(threads=options.threads)
    core = core_of(target)
    lines: list[Result] = []
    for name in options.only or _NAMES:
        for seed in options.seeds or range(1 if options.quick else _SEEDS):
            right, off = (_best_ms(name, target, each, seed, options) for each in (core, wrong_core(core, seed)))
            lines.append(
                {
                    "case": f"{name}, seed {seed}",
                    "layer": name,
                    "ours_ms": off,
                    "peer": "right constants",
                    "peer_ms": right,
                    "ratio": right / off,
                }
            )
            yield lines[-1]
    yield from summary(lines)


def summary(lines: Sequence[Result]) -> Iterator[Result]:
    """Median and worst ratio of each layer, and the geometric mean of the medians."""
    ratios: dict[str, list[float]] = {}
    for line in lines:
        ratios.setdefault(str(line["layer"]), []).append(cast(float, line["ratio"]))
    medians = {name: statistics.median(found) for name, found in ratios.items()}
    for name, found in ratios.items():
        yield {"case": name, "seeds": len(found), "median_ratio": medians[name], "worst_ratio": min(found)}
    mean = statistics.geometric_mean(medians.values())
    yield {"case": "all", "layers": len(medians), "mean_of_medians": mean, "worst_median": min(medians.values())}


def of_files(paths: Iterable[Path]) -> Iterator[Result]:
    """The summary over the lines of searches in some files; of a case that is there twice, the last line counts."""
    lines = [json.loads(text) for path in paths for text in path.read_text(encoding="utf-8").splitlines()]
    cases = {line["case"]: line for line in lines if "layer" in line}
    if not cases:
        raise MetaschedError("these files have no line of searches, as `benchmarks wrong_constants --json` prints them")
    return summary(list(cases.values()))


def _best_ms(name: str, target: ms.Target, core: Core, seed: int, options: Options) -> float:
    trials = 16 if options.quick else options.trials
    task = ms.Task(TWELVE[name].program(), target=target, core=core)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/records.db"
        with ms.TuningSession([task], db=url, seed=seed, progress=False, guess=False) as session:
            (report,) = session.run(trials)
    assert report.best is not None
    assert report.best.seconds is not None
    return report.best.seconds * 1e3


if __name__ == "__main__":
    for result in of_files(map(Path, sys.argv[1:])):
        print(json.dumps(result))
