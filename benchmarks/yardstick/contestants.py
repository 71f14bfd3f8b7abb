"""What is judged: scores without learning, and the models of the registry, as each learns from other tasks.

Nothing that was trained before is used: a contestant starts from no parameters, so that what it is judged on can have
had no part in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from benchmarks.yardstick.metrics import Array
from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score
from metasched.cost.features import Features
from metasched.cost.model_registry import MODELS, MakeModel

# The clock by which cycles are told as a time.
CLOCK_HZ = 3e9


@dataclass(frozen=True)
class Prediction:
    """Scores, higher for what is thought to be faster, and seconds, if there are any; both of shape (n,)."""

    score: Array
    seconds: Array | None = None


Predict = Callable[[Features], Prediction]


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
        return lambda features: Prediction(rng.random(len(features)))


@dataclass(frozen=True)
class Roofline:
    """The hand-made roofline alone."""

    name: str = "roofline"
    chance: bool = False

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        del others, own, seed

        def predict(features: Features) -> Prediction:
            score = analytic_score(features)
            return Prediction(score, (np.exp2(-score) - 1.0) / CLOCK_HZ)

        return predict


@dataclass(frozen=True)
class Learned:
    """A model of the registry."""

    name: str
    make: MakeModel
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        tasks = [*others, *([] if own is None else [own])]
        model = self.make(seed)
        if tasks:
            features = np.concatenate([one.features for one in tasks])
            model.fit(features, np.concatenate([_throughput(one) for one in tasks]))
        return lambda features: Prediction(model.predict(features))


@dataclass(frozen=True)
class OwnOnly:
    """A model of the registry that learns from records of the same task alone."""

    learned: Learned
    chance: bool = True

    @property
    def name(self) -> str:
        return f"{self.learned.name}, own records only"

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        del others
        return self.learned.train((), own, seed)


def _throughput(samples: Samples) -> Array:
    """The best time over each time, of the candidates that there are."""
    seconds = samples.seconds
    throughput: Array = seconds.min() / seconds
    return throughput


def contestants() -> list[Contestant]:
    """Everyone, the simplest first."""
    plain: list[Contestant] = [Random(), Roofline()]
    names = [name for name in MODELS.names() if name not in {one.name for one in plain}]
    learned = [Learned(name, MODELS.get(name)) for name in names]
    return [*plain, *learned, *map(OwnOnly, learned)]
