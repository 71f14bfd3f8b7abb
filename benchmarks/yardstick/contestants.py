"""What is judged: scores without learning, and the model of the package.

Nothing that was trained before is used: a contestant starts from no parameters, so that what it is judged on can have
had no part in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score
from metasched.cost.learning.ranking import Array
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import TrainedModel
from metasched.cost.learning.training import train
from metasched.cost.model import CostModel

# The clock by which cycles are told as a time.
CLOCK_HZ = 3e9


@dataclass(frozen=True)
class Prediction:
    """Scores, higher for what is thought to be faster, and seconds, if there are any; both of shape (n,)."""

    score: Array
    seconds: Array | None = None


Predict = Callable[[Samples], Prediction]


class Contestant(Protocol):
    """Who is judged. `chance` says whether the seed makes a difference."""

    @property
    def name(self) -> str: ...

    @property
    def chance(self) -> bool: ...

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        """What predicts for a task, from candidates of other tasks, and some of its own if there are any."""
        ...


@dataclass(frozen=True)
class Random:
    """Scores without looking."""

    name: str = "random"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        del others, own
        rng = np.random.default_rng(seed)
        return lambda judged: Prediction(rng.random(len(judged)))


@dataclass(frozen=True)
class Roofline:
    """The hand-made roofline alone."""

    name: str = "roofline"
    chance: bool = False

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        del others, own, seed

        def predict(judged: Samples) -> Prediction:
            score = analytic_score(judged.features)
            return Prediction(score, (np.exp2(-score) - 1.0) / CLOCK_HZ)

        return predict


@dataclass(frozen=True)
class Trees:
    """The model of the package, trained on the other tasks, and adapted to the task's own records."""

    name: str = "trees"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        return _predict(CostModel(seed, train_model(tuple(others), seed)), own)


@dataclass(frozen=True)
class OwnOnly:
    """The same model with nothing but the task's own records: the roofline, and trees on what it gets wrong."""

    name: str = "trees on own records only"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        del others
        return _predict(CostModel(seed), own)


def _predict(model: CostModel, own: Samples | None) -> Predict:
    if own is not None:
        model.fit(times_of(own))

    def predict(judged: Samples) -> Prediction:
        score = model.predict(judged.features)
        return Prediction(score, np.exp2(-score))

    return predict


@lru_cache(maxsize=128)
def train_model(others: tuple[Samples, ...], seed: int) -> TrainedModel:
    """Train a model by other tasks: once for all tasks of a fold, in both protocols."""
    return train([times_of(one) for one in others], seed)


def times_of(samples: Samples) -> TaskTimes:
    """Candidates of a task as models learn from them."""
    return TaskTimes(samples.features, samples.seconds)


def contestants() -> list[Contestant]:
    """Those that the package has, the simplest first."""
    return [Random(), Roofline(), Trees(), OwnOnly()]
