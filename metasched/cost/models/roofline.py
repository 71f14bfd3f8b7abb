"""The model `roofline`: what a search knows without learning, to compare what is learned with."""

from __future__ import annotations

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL
from metasched.cost.learning.training import residual
from metasched.cost.model import Model


class Roofline:
    """The cycles of the roofline, of which only the length of one is learned: that ranks nothing differently."""

    def __init__(self) -> None:
        self._offset = UNTRAINED_MODEL.offset

    def fit(self, own: TaskTimes) -> None:
        """Fit the seconds of a cycle."""
        timed = own.select(np.flatnonzero(np.isfinite(own.seconds) & ~own.bounds))
        self._offset = float(np.median(residual(timed))) if len(timed) else UNTRAINED_MODEL.offset

    def predict(self, features: Features) -> Array:
        """-log2 of the seconds expected, shape (n,)."""
        return analytic_score(features) - self._offset


def model(seed: int) -> Model:
    """An untrained model `roofline`; the seed decides nothing."""
    return Roofline()
