"""What a search loses by wrong constants: each of them 2 to 4 times too large or too small, by chance.

A search with the constants that this machine has measured (`metasched calibrate`; else the defaults) is beside it, with
the same seed. Neither measures a guess or an expert trace, so that nothing is found that the model did not like.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace

import metasched as ms
from benchmarks.registry import Options, Result
from metasched.calibration.store import core_of
from metasched.cost.core import Core
from metasched.operators import TWELVE

_SEEDS = 5
# Layers whose candidates take a millisecond or less: the others differ in nothing but how long this takes.
_NAMES = ("C1D", "DEP", "GMM", "SFM", "T2D")
_LEAST, _MOST = 2.0, 4.0


def wrong(core: Core, seed: int) -> Core:
    """Constants each of which is 2 to 4 times too large or too small, by the seed."""
    draw = random.Random(seed)
    factors = {field.name: draw.uniform(_LEAST, _MOST) ** draw.choice((-1, 1)) for field in fields(Core)}
    return replace(core, **{name: getattr(core, name) * factor for name, factor in factors.items()})


def run(options: Options) -> Iterator[Result]:
    target = ms.Target.detect(threads=options.threads)
    core = core_of(target)
    for name in options.only or _NAMES:
        ratios: list[float] = []
        for seed in range(1 if options.quick else _SEEDS):
            right, off = (_best_ms(name, target, each, seed, options) for each in (core, wrong(core, seed)))
            ratios.append(right / off)
            case = f"{name}, seed {seed}"
            yield {"case": case, "ours_ms": off, "peer": "right constants", "peer_ms": right, "ratio": right / off}
        yield {"case": name, "median_ratio": statistics.median(ratios), "worst_ratio": min(ratios)}


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
