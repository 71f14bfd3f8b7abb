"""A model that lets other tasks of a session go on, whose results are there, before it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import Model


class YieldingModel:
    """A model that calls `give_way` before it learns or predicts; whatever else it has is the model's own.

    A strategy computes for most of a second, and asks its model again and again: in between, what others have built can
    be submitted, so that no machine waits for it.
    """

    def __init__(self, model: Model, give_way: Callable[[], None]) -> None:
        self._model = model
        self._give_way = give_way

    def fit(self, own: TaskTimes) -> None:
        self._give_way()
        self._model.fit(own)

    def predict(self, features: Features) -> Array:
        self._give_way()
        return self._model.predict(features)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # not before it is made, as when it is copied
            raise AttributeError(name)
        return getattr(self._model, name)
