"""The learned cost model: what many tasks taught, adapted to the task at hand.

It predicts log2 of the seconds of a call: what the hand-made roofline says, plus the sum of the trees of a trained
model, plus what measurements teach. They do so in two steps. First the values of the trained trees' leaves move, all at
once, as little as explains the measurements: ridge regression over the leaves, which is Gaussian process regression
with the share of trees in which two candidates meet in a leaf as the kernel (Davies and Ghahramani 2014,
arXiv:1402.4293), and the trained model as the mean. Where both compute in tile registers, the share of the trees for
these is added, and the leaves of both forests move. So what tasks have in common is what measurements are told apart
by, and predicting costs no more than before. Then boosted trees of the task's own learn what is left.

Measurements of other tasks move the leaves first, each task centred, and each trusted less than the task's own: they
are what AutoTVM's f_glob says before f_loc (Chen et al. 2018, section 5), in one model.

A time that is a lower bound, because measuring was broken off, is learned as that: it says nothing where more is
expected (a censored observation, as in Tobit's regression, 1958).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.forest import LEAVES, Forest
from metasched.cost.learning.leaf_membership import LeafMembership
from metasched.cost.learning.lightgbm_package import lightgbm
from metasched.cost.learning.task_times import Positions, TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL, TrainedModel
from metasched.cost.learning.training import boost_trees, centre_residual
from metasched.support.data_classes import dataclass

# Measurements that move the values of leaves: of more, the fastest half of so many and others of all kinds.
MOST_MOVING_MEASUREMENTS = 768
# The same of those that trees are grown from: from a hundred thousand that would take ten seconds, for each batch.
MOST_TREE_MEASUREMENTS = 16_384
# How much the trained values are trusted against a measurement: the variance of what trees cannot tell over that of
# what moves. A measurement of another task tells less.
_RIDGE = 1.0
_RIDGE_OF_OTHERS = 4.0
# Measurements of other tasks that are learned from, all together.
MOST_MEASUREMENTS_OF_OTHERS = 1024
# How often what is expected where times are lower bounds is computed anew.
_BOUND_ROUNDS = 3
_OWN_TREES = 40
_OWN_TREE_PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.05,
    "lambda_l2": 1.0,
    "feature_fraction": 0.5,
    "min_data_in_leaf": 3,
    "min_data_in_bin": 1,
}
# Measurements for each leaf of an own tree.
_MEASUREMENTS_PER_LEAF = 4


class Model(Protocol):
    """Scores candidates of one task: -log2 of the seconds expected; higher is faster.

    `fit` learns from the task's own measurements, from scratch at every call; none leave the model as it was made.
    """

    def fit(self, own: TaskTimes) -> None: ...
    def predict(self, features: Features) -> Array: ...


@runtime_checkable
class LearnsFromOthers(Protocol):
    """A model that learns from the measurements of other tasks, too: `teach` is told all of them at every call."""

    def teach(self, others: Sequence[TaskTimes]) -> None: ...


@runtime_checkable
class GetsReady(Protocol):
    """A model that imports what it learns with when it is told to, while there is nothing else to do, or else when it
    first learns.
    """

    def get_ready(self) -> None: ...


@dataclass(frozen=True)
class _Adaptation:
    """A model's adaptation to a task: values of the trained leaves, the constant of the task, trees of its own."""

    values: Array
    offset: float
    own: Forest


class CostModel:
    """Expects what a trained model does, and learns from the task's own measurements.

    Args:
        seed: of the own trees' draws of features. Equal seeds and data give equal models, whatever `threads` is.
        trained: what other tasks taught; nothing by default, which is the roofline.
        threads: that LightGBM may use. None of them runs between calls.
    """

    def __init__(self, seed: int = 0, trained: TrainedModel = UNTRAINED_MODEL, threads: int = 1) -> None:
        self.seed = seed
        self.threads = threads
        self._trained = trained
        self._common = trained.values
        self._adapted = self._initial_adaptation()
        self._own: TaskTimes | None = None
        self._is_stale = False

    def _initial_adaptation(self) -> _Adaptation:
        return _Adaptation(self._common, self._trained.offset, Forest(()))

    def get_ready(self) -> None:
        """Import LightGBM."""
        lightgbm()

    def teach(self, others: Sequence[TaskTimes]) -> None:
        """Learn from the measurements of other tasks, and forget what those of earlier calls taught."""
        self._common = leaves_after_others(self._trained, others)
        self._adapted = self._initial_adaptation()
        self._is_stale = self._own is not None

    def fit(self, own: TaskTimes) -> None:
        """Learn from the task's own measurements, and forget what those of earlier calls taught."""
        self._own, self._is_stale = own, False
        self._adapted = self._initial_adaptation()
        if not np.isfinite(own.seconds).any():
            return
        own = choose_spread(own, MOST_TREE_MEASUREMENTS)
        self._adapted = self._move_leaves(choose_spread(own, MOST_MOVING_MEASUREMENTS))
        own_trees = self._grow_trees(own)
        self._adapted = _Adaptation(self._adapted.values, self._adapted.offset, own_trees)

    def predict(self, features: Features) -> Array:
        """-log2 of the seconds expected, float64 of shape (n,)."""
        if self._is_stale and self._own is not None:
            self.fit(self._own)
        now = self._adapted
        shift = now.offset - self._trained.offset
        return -(self._trained.log_seconds(features, now.values) + shift + now.own.predict(features))

    def _move_leaves(self, own: TaskTimes) -> _Adaptation:
        """The leaves' values after ridge regression of what the trained model gets wrong."""
        before = self._trained.log_seconds(own.features, self._common)
        shift = own.common_part(own.log_seconds - before)
        if not self._trained.trees:
            return _Adaptation(self._common, self._trained.offset + shift, Forest(()))
        membership = LeafMembership.from_features(self._trained, own.features)
        kernel = membership.common_leaves()
        kernel[np.diag_indices(len(own))] += _RIDGE
        expected = before + shift
        weights: Array = np.zeros(len(own))
        for _ in range(_BOUND_ROUNDS if own.bounds.any() else 1):
            left = own.fill_bounds(expected) - before - shift
            weights = np.linalg.solve(kernel, left)
            expected = before + shift + left - _RIDGE * weights
        return _Adaptation(self._common + membership.leaf_changes(weights), self._trained.offset + shift, Forest(()))

    def _grow_trees(self, own: TaskTimes) -> Forest:
        """Trees of the task's own, for what is left."""
        leaves = min(LEAVES, len(own) // _MEASUREMENTS_PER_LEAF)
        if leaves < 2:
            return Forest(())
        expected = -self.predict(own.features)
        parameters = {**_OWN_TREE_PARAMETERS, "num_leaves": leaves, "seed": self.seed, "num_threads": self.threads}
        return Forest(boost_trees(own.features, own.fill_bounds(expected) - expected, parameters, _OWN_TREES).trees)


def leaves_after_others(
    trained: TrainedModel, others: Sequence[TaskTimes], most: int = MOST_MEASUREMENTS_OF_OTHERS
) -> Array:
    """The values of all leaves of a trained model, (trees, LEAVES), after at most so many measurements of other tasks.

    Each task is centred: what all its candidates have in common tells nothing of this one's.
    """
    timed = [task for task in others if len(task) > 1 and np.isfinite(task.seconds).any()]
    if not timed or not trained.trees:
        return trained.values
    each = max(2, most // len(timed))
    chosen = [choose_spread(task, each) for task in timed]
    left = np.concatenate([centre_residual(task, trained) for task in chosen])
    membership = LeafMembership.from_features(trained, np.concatenate([task.features for task in chosen]))
    kernel = membership.common_leaves()
    ends = np.cumsum([len(task) for task in chosen])
    of_tasks = [slice(end - len(task), end) for end, task in zip(ends, chosen, strict=True)]
    for rows in of_tasks:
        kernel[rows] -= kernel[rows].mean(axis=0)
        kernel[:, rows] -= kernel[:, rows].mean(axis=1)[:, None]
    kernel[np.diag_indices(len(left))] += _RIDGE_OF_OTHERS
    weights = np.linalg.solve(kernel, left)
    for rows in of_tasks:
        weights[rows] -= weights[rows].mean()
    return trained.values + membership.leaf_changes(weights)


def choose_spread(own: TaskTimes, count: int) -> TaskTimes:
    """A choice of at most `count` measurements: half of them the fastest, and the others evenly spread by rank."""
    return own if len(own) <= count else own.select(spread_positions(own.seconds, count))


def spread_positions(seconds: Array, count: int) -> Positions:
    """The positions of at most `count` times, in order: the fastest, as half of them, and others by rank."""
    if len(seconds) <= count:
        return np.arange(len(seconds), dtype=np.int64)
    ranked = np.argsort(seconds, kind="stable")
    fastest = count // 2
    others = np.linspace(fastest, len(ranked) - 1, count - fastest).astype(np.int64)
    return np.sort(np.concatenate([ranked[:fastest], ranked[others]]))
