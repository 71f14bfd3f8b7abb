"""A model that lets other tasks go on before it computes."""

from __future__ import annotations

import copy

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.search.several_tasks.yielding_model import YieldingModel


class Noting:
    """A model that notes when it computes."""

    kind = "noting"

    def __init__(self, order: list[str]) -> None:
        self._order = order

    def fit(self, own: TaskTimes) -> None:
        self._order.append(f"learns from {len(own.seconds)}")

    def predict(self, features: Features) -> Array:
        self._order.append(f"predicts {len(features)}")
        return np.zeros(len(features))


def test_others_go_on_before_it_learns_and_before_it_predicts() -> None:
    order: list[str] = []
    model = YieldingModel(Noting(order), lambda: order.append("others"))
    model.fit(TaskTimes(np.empty((0, len(NAMES)), np.float32), np.empty(0)))
    assert len(model.predict(np.empty((3, len(NAMES)), np.float32))) == 3
    assert order == ["others", "learns from 0", "others", "predicts 3"]


def test_whatever_else_a_model_has_is_there_and_it_can_be_copied() -> None:
    model = YieldingModel(Noting([]), lambda: None)
    assert model.kind == "noting"
    assert copy.copy(model).kind == "noting"
    assert not hasattr(model, "teach")
