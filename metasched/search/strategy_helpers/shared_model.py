"""One model that several strategies train, each for itself: it is trained again for whoever asks after another did."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import Model

# A model that learns from nothing is as it was made.
_NO_TIMES = TaskTimes(np.empty((0, len(NAMES)), np.float32), np.empty(0))


class SharedModel:
    """Hands a model out to several users."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._of: UsedModel | None = None

    def add_user(self) -> UsedModel:
        """The model as one user sees it: it knows what that user had it learn, and nothing else."""
        return UsedModel(self)

    def model_of(self, user: UsedModel) -> Model:
        """The model, as one user trained it."""
        if self._of is not user:
            if user.learned is not None or self._of is not None:
                self._model.fit(_NO_TIMES if user.learned is None else user.learned)
            self._of = user
        return self._model

    def learn(self, user: UsedModel, own: TaskTimes) -> None:
        """Train the model for a user."""
        self._of = user
        self._model.fit(own)


class UsedModel:
    """A shared model, for one user; `learned` is what it learned from last."""

    def __init__(self, shared: SharedModel) -> None:
        self._shared = shared
        self.learned: TaskTimes | None = None

    def fit(self, own: TaskTimes) -> None:
        self.learned = own
        self._shared.learn(self, own)

    def predict(self, features: Features) -> Array:
        return self._shared.model_of(self).predict(features)
