"""Each user of a shared model sees what it trained, whoever trained it since."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.search.strategy_helpers.shared_model import SharedModel

ROWS = np.zeros((2, len(NAMES)), np.float32)


class Counting:
    """Predicts how many measurements it learned from, and counts how often it learned."""

    def __init__(self) -> None:
        self.learned = self.fits = 0

    def fit(self, own: TaskTimes) -> None:
        self.learned = len(own)
        self.fits += 1

    def predict(self, features: Features) -> Array:
        return np.full(len(features), float(self.learned))


def times(count: int) -> TaskTimes:
    return TaskTimes(np.zeros((count, len(NAMES)), np.float32), np.ones(count))


def test_each_user_sees_what_it_trained() -> None:
    model = Counting()
    shared = SharedModel(model)
    one, two, three = (shared.add_user() for _ in range(3))
    assert one.predict(ROWS)[0] == 0
    one.fit(times(3))
    two.fit(times(5))
    assert [user.predict(ROWS)[0] for user in (one, two, three, one)] == [3, 5, 0, 3]


def test_it_is_trained_again_only_after_another() -> None:
    model = Counting()
    shared = SharedModel(model)
    one, two = shared.add_user(), shared.add_user()
    one.predict(ROWS)
    one.fit(times(3))
    one.predict(ROWS)
    one.predict(ROWS)
    assert model.fits == 1
    two.predict(ROWS)
    one.predict(ROWS)
    assert model.fits == 3
