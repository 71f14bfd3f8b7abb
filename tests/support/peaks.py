"""A landscape with one peak, which a model knows: what a strategy makes of a model is seen apart from what that learns.

Of 65,536 rows one is best, and the closer a row is to it in each variable, the better. A strategy that only ranks what
it draws does not come to it; one that changes rows by what the model says of their parts does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.search.space_protocol import Candidate, Observation, Rows, Strategy
from tests.support.toys import Toy, Toys

PEAK = (3, 12, 6, 8)
MOST = 16


class Peaked(Toy):
    """Four variables of a number between 1 and 16 each; its draws are remembered. `flavour` is how much worse it is."""

    def __init__(self, flavour: int = 0) -> None:
        super().__init__(width=len(PEAK), flavour=flavour)
        object.__setattr__(self, "drawn", set())

    drawn: set[tuple[int, ...]]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return tuple((n,) for n in range(self.width))

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        rows = rng.integers(1, MOST + 1, (count, self.width))
        self.drawn.update(map(tuple, rows.tolist()))
        return rows

    def repair(self, rows: Rows) -> Rows:
        return np.clip(rows, 1, MOST)

    def seconds(self, row: tuple[int, ...]) -> float:
        return float(2.0 ** (sum(abs(np.log2(a) - np.log2(b)) for a, b in zip(row, PEAK, strict=True)) + self.flavour))


@dataclass
class Knows:
    """A model that knows the landscape, and remembers what rows it was asked about; it learns nothing."""

    asked: set[tuple[int, ...]] = field(default_factory=set)

    def fit(self, own: TaskTimes) -> None: ...

    def predict(self, features: Features) -> Array:
        logs = features[:, : len(PEAK)].astype(np.float64)
        self.asked.update(map(tuple, np.rint(2.0**logs).astype(int).tolist()))
        return np.asarray(-np.abs(logs - np.log2(PEAK)).sum(axis=1) - features[:, len(PEAK)])


def measured(arms: Toys, candidates: list[Candidate]) -> list[Observation]:
    return [Observation(one, arms[one.arm].seconds(one.row)) for one in candidates]


def batches(strategy: Strategy, arms: Toys, count: int, size: int = 8) -> list[list[Candidate]]:
    """So many batches that a strategy proposes, each of which is measured."""
    found = []
    for _ in range(count):
        found.append(strategy.propose(size))
        strategy.observe(measured(arms, found[-1]))
    return found
