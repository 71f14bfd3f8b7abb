"""The model `roofline`: what a search knows without learning, to compare what is learned with."""

from __future__ import annotations

from metasched.cost.features import Features
from metasched.cost.footprint import Array
from metasched.cost.model import Calibration, Model, calibrate


class Roofline:
    """The roofline's efficiency, scaled to the measurements: how it ranks, they change little."""

    def __init__(self) -> None:
        self._calibration = Calibration()

    def fit(self, features: Features, throughput: Array) -> None:
        """Fit two numbers, to `throughput` in [0, 1], shape (n,), of `features`, float32 of shape (n, F)."""
        self._calibration = calibrate(features, throughput)

    def predict(self, features: Features) -> Array:
        """Expected throughput, shape (n,)."""
        return self._calibration(features)


def model(seed: int) -> Model:
    """An untrained one."""
    return Roofline()
