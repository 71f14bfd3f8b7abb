"""Scores that need no measurement."""

from __future__ import annotations

import numpy as np

from metasched.cost.features import NAMES, Features
from metasched.cost.footprint import Array
from metasched.cost.task_times import TaskTimes

_EFFICIENCY = NAMES.index("all.efficiency")
_CYCLES = NAMES.index("all.total_cycles")
_STATEMENTS, _MAIN = NAMES.index("all.cycles"), NAMES.index("s0.cycles")


def analytic_efficiency(features: Features) -> Array:
    """The share of peak arithmetic that the hand-made roofline expects, float64 of shape (n,)."""
    return features[:, _EFFICIENCY].astype(np.float64)


def analytic_score(features: Features) -> Array:
    """Higher is faster: minus log2 of the cycles that the hand-made roofline expects, float64 of shape (n,)."""
    return -features[:, _CYCLES].astype(np.float64)


def share_beside(features: Features) -> Array:
    """The share of the cycles of all statements that are not those of the one with most work, float64 of shape (n,)."""
    main, statements = (features[:, n].astype(np.float64) for n in (_MAIN, _STATEMENTS))
    share: Array = 1.0 - np.exp2(main - statements)
    return share


class RandomModel:
    """Scores without looking: the baseline that a model has to beat. Reproducible by seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def fit(self, own: TaskTimes) -> None:
        """Learns nothing."""

    def predict(self, features: Features) -> Array:
        return self._rng.random(len(features))
