"""A model whose scores are looked at before they are used: a number that is finite for each candidate."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import Model
from metasched.errors import MetaschedError
from metasched.support.messages import counted

_HINT = "a score is -log2 of the seconds that are expected; what is never worth its time is a low one, such as -100"


class CheckedModel:
    """A model that gives scores as float64, and raises MetaschedError for what are none; all else is the model's own.

    Searches sort by scores: one that is no number has no place, and a score too many or too few is another candidate's.
    """

    def __init__(self, own: Model) -> None:
        self.own = own

    def fit(self, own: TaskTimes) -> None:
        self.own.fit(own)

    def predict(self, features: Features) -> Array:
        given: object = self.own.predict(features)
        try:
            scores: Array = np.asarray(given, np.float64)
        except (TypeError, ValueError):
            self._refuse(f"{given!r}", features)
        if given is None or scores.shape != (len(features),):
            self._refuse("None" if given is None else f"an array of shape {scores.shape}", features)
        if not (finite := np.isfinite(scores)).all():
            self._refuse(f"{scores[~finite][0]} among its scores", features)
        return scores

    def _refuse(self, predicted: str, features: Features) -> NoReturn:
        wanted = counted(len(features), "candidate")
        raise MetaschedError(f"the model {type(self.own).__name__} predicted {predicted} for {wanted}", hint=_HINT)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # not before it is made, as when it is copied
            raise AttributeError(name)
        return getattr(self.own, name)
