"""What models that are weighed against the package's have in common: the candidates that they learn from, and how trees
are grown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.yardstick.contestants import Prediction, times_of
from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score
from metasched.cost.features import Features
from metasched.cost.learning.ranking import Array
from metasched.cost.learning.training import residual

# What trees are grown on, float32 of shape (n, F), for the n candidates of a task.
Read = Callable[[Samples], Features]

# A record of the task's own counts as so many of others.
_OWN_WEIGHT = 10.0
TREES = 150
GROWING: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 8,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}


@dataclass(frozen=True)
class Data:
    """Candidates of several tasks, one task after another: what the roofline gets wrong in log2, centred per task, and
    weights, both of shape (n,)."""

    tasks: tuple[Samples, ...]
    left: Array
    weights: Array

    @property
    def counts(self) -> list[int]:
        """How many there are of each task."""
        return [len(one) for one in self.tasks]

    @property
    def seconds(self) -> Array:
        return np.concatenate([one.seconds for one in self.tasks])

    def rows(self, read: Read) -> Features:
        """What `read` gives of all tasks, in one array."""
        return np.concatenate([read(one) for one in self.tasks])

    def centre(self, values: Array) -> Array:
        """Values of all candidates, less the mean of those of their task."""
        tasks = np.repeat(np.arange(len(self.tasks)), self.counts)
        out: Array = values - (np.bincount(tasks, values) / np.array(self.counts))[tasks]
        return out


def join_samples(others: Sequence[Samples], own: Samples | None) -> Data | None:
    """Candidates of the other tasks and of the own one, which weigh more; None where there are none."""
    tasks = (*others, *([] if own is None else [own]))
    if not tasks:
        return None
    left = [residual(times_of(one)) for one in tasks]
    weights = [np.full(len(one), _OWN_WEIGHT if one is own else 1.0) for one in tasks]
    return Data(tasks, np.concatenate([one - one.mean() for one in left]), np.concatenate(weights))


def features_of_package(samples: Samples) -> Features:
    """The features that the package's model goes by."""
    return samples.features


def by_roofline(samples: Samples) -> Prediction:
    """What is predicted by who learned nothing."""
    return Prediction(analytic_score(samples.features))
