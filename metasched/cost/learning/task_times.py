"""Measured candidates of a task: what models learn from."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features
from metasched.support.data_classes import dataclass

Flags = np.ndarray[Any, np.dtype[np.bool_]]
Positions = np.ndarray[Any, np.dtype[np.int64]]

# A failure is learned as a time that is so many times the longest of the task: no failure should be proposed again,
# but how bad it is, nobody knows.
FAILURE_FACTOR = 4.0


@dataclass(frozen=True)
class TaskTimes:
    """Candidates of one task that were measured.

    `features` is float32 of shape (n, F). `seconds` has shape (n,): positive, infinite for a failure. `bounds`, of
    shape (n,), says where a time is a lower bound, because measuring it was broken off; nowhere by default.

    Raises ValueError where the shapes do not go together.
    """

    features: Features
    seconds: Array
    bounds: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        if not len(self.bounds):
            object.__setattr__(self, "bounds", np.zeros(len(self.seconds), np.bool_))
        if self.features.shape != (len(self.seconds), len(NAMES)) or len(self.bounds) != len(self.seconds):
            raise ValueError(
                f"features of shape {self.features.shape} do not go with {len(self.seconds)} times "
                f"and {len(self.bounds)} bounds"
            )

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def log_seconds(self) -> Array:
        """log2 of the times, shape (n,), failures as times `FAILURE_FACTOR` as long as the longest.

        All are zero where everything failed: nothing is known of their order.
        """
        timed = np.isfinite(self.seconds)
        if not timed.any():
            return np.zeros(len(self))
        slowest = self.seconds[timed].max() * FAILURE_FACTOR
        logs: Array = np.log2(np.where(timed, self.seconds, slowest))
        return logs

    def fill_bounds(self, expected: Array) -> Array:
        """log2 of the times, where what is `expected`, in log2 seconds, stands for a lower bound that is below it."""
        logs = self.log_seconds
        seen: Array = np.where(self.bounds, np.maximum(logs, expected), logs)
        return seen

    def common_part(self, left: Array) -> float:
        """The mean over measurements of numbers of shape (n,): what all have in common; lower bounds only count
        where there is nothing else."""
        sure = np.isfinite(self.seconds) & ~self.bounds
        return float(left[sure if sure.any() else np.isfinite(self.seconds)].mean())

    def select(self, positions: Positions) -> TaskTimes:
        """Some of the candidates, by position."""
        return TaskTimes(self.features[positions], self.seconds[positions], self.bounds[positions])
