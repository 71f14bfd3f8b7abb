"""Made-up candidates of tasks, whose roofline is a feature like others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.yardstick.data import SPACE
from benchmarks.yardstick.details import CURVES, DETAILED, Details
from benchmarks.yardstick.samples import Samples
from metasched.cost.features import NAMES

MakeSamples = Callable[..., Samples]


@pytest.fixture
def made_up() -> MakeSamples:
    """Makes candidates of a task, whose times the roofline knows but for some noise."""

    def make(task: str, family: str, count: int = 100, pool: str = SPACE, known: float | None = None) -> Samples:
        rng = np.random.default_rng(sum(map(ord, task + pool)))
        seconds = rng.lognormal(-8.0, 1.0, count)
        features = np.zeros((count, len(NAMES)), np.float32)
        expected = seconds * rng.lognormal(0.0, 0.2, count)
        features[:, NAMES.index("all.total_cycles")] = np.log2(expected * 3e9)
        features[:, NAMES.index("all.efficiency")] = 1e-5 / expected
        best = float(seconds.min()) if known is None else known
        details = Details(np.zeros((count, 1, len(DETAILED)), np.float32), np.zeros((count, CURVES), np.float32))
        return Samples(task, family, None, pool, features, details, seconds, seconds * 1.01, best)

    return make
