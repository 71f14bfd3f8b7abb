"""How long a structure takes to make, and its features to analyse: CPU time, over many bred from one another.

With names of `operators.TWELVE` (`--only`), it is told of these instead of C1D, DEP, C2D and TBG.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import metasched as ms
from benchmarks.registry import Options, Result
from metasched.operators import TWELVE
from metasched.search.arms.space_arms import SpaceArms
from metasched.support import collection

_OPERATORS = ("C1D", "DEP", "C2D", "TBG")
# Attempts for each structure that is wanted: children may be known.
_ATTEMPTS = 8


def run(options: Options) -> Iterator[Result]:
    wanted = 20 if options.quick else 100
    for name in options.only or _OPERATORS:
        arms = SpaceArms(ms.space(TWELVE[name].program()), ms.Target.detect(threads=options.threads))
        arms.first()  # what is imported or cached at first
        with collection.pause_gc():
            start = time.process_time()
            _breed(arms, wanted)
            bred = time.process_time()
            for arm in range(len(arms)):
                _ = arms[arm].feature_program
            analysed = time.process_time()
        yield {
            "case": f"{name}, {len(arms)} structures",
            "made_ms": 1e3 * (bred - start) / len(arms),
            "analysed_ms": 1e3 * (analysed - bred) / len(arms),
        }


def _breed(arms: SpaceArms, wanted: int) -> None:
    """Make structures as a search does: some from the prior, most with one decision changed or of two parents."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        arms.draw(rng)
    for _ in range(_ATTEMPTS * wanted):
        if len(arms) >= wanted:
            return
        mother, father = (int(n) for n in rng.integers(len(arms), size=2))
        if rng.random() < 0.3:
            arms.cross(rng, mother, father)
        else:
            arms.mutate(rng, mother)
