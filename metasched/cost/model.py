"""The learned cost model: what many tasks taught, adapted to the task at hand.

It predicts log2 of the seconds of a call: what the hand-made roofline says, plus the sum of the trees of a trained
model, plus what the task's own measurements teach. They do so in two steps. First the values of the trained trees'
leaves move, all at once, as little as explains the measurements: ridge regression over the leaves, which is Gaussian
process regression with the share of trees in which two candidates meet in a leaf as the kernel (Davies and Ghahramani
2014, arXiv:1402.4293), and the trained model as the mean. So what tasks have in common is what measurements are told
apart by, and predicting costs no more than before. Then boosted trees of the task's own learn what is left.

A time that is a lower bound, because measuring was broken off, is learned as that: it says nothing where more is
expected (a censored observation, as in Tobit's regression, 1958).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from metasched.cost.features import Features
from metasched.cost.footprint import Array
from metasched.cost.forest import LEAVES, Forest, Places
from metasched.cost.task_times import TaskTimes
from metasched.cost.trained import UNTRAINED, TrainedModel
from metasched.cost.training import boosted

# Measurements that move the values of leaves: of more, the fastest half of so many and others of all kinds.
MOST_MOVING = 768
# The same of those that trees are grown from: from a hundred thousand that would take ten seconds, for each batch.
MOST_ROWS = 16_384
# How much the trained values are trusted against a measurement: the variance of what trees cannot tell over that of
# what moves.
_TRUST = 1.0
# How often what is expected where times are lower bounds is computed anew.
_ROUNDS = 3
_OWN_TREES = 40
_OWN: dict[str, Any] = {
    "learning_rate": 0.05,
    "lambda_l2": 1.0,
    "feature_fraction": 0.5,
    "min_data_in_leaf": 3,
    "min_data_in_bin": 1,
}
# Measurements for each leaf of an own tree.
_EACH_LEAF = 4


class Model(Protocol):
    """Scores candidates of one task: -log2 of the seconds expected; higher is faster.

    `fit` learns from the task's own measurements, from scratch at every call; none leave the model as it was made.
    """

    def fit(self, own: TaskTimes) -> None: ...
    def predict(self, features: Features) -> Array: ...


@dataclass(frozen=True)
class _Adapted:
    """What a task's measurements taught: values of the trained leaves, the constant of the task, trees of its own."""

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

    def __init__(self, seed: int = 0, trained: TrainedModel = UNTRAINED, threads: int = 1) -> None:
        self.seed = seed
        self.threads = threads
        self._trained = trained
        self._adapted = self._untouched()

    def _untouched(self) -> _Adapted:
        return _Adapted(self._trained.forest.values, self._trained.offset, Forest(()))

    def fit(self, own: TaskTimes) -> None:
        """Learn from the measurements of a task, and forget what was learned from others."""
        self._adapted = self._untouched()
        if not np.isfinite(own.seconds).any():
            return
        own = spread(own, MOST_ROWS)
        self._adapted = self._moved(spread(own, MOST_MOVING))
        own_trees = self._grown(own)
        self._adapted = _Adapted(self._adapted.values, self._adapted.offset, own_trees)

    def predict(self, features: Features) -> Array:
        """-log2 of the seconds expected, float64 of shape (n,)."""
        now = self._adapted
        shift = now.offset - self._trained.offset
        return -(self._trained.log_seconds(features, now.values) + shift + now.own.predict(features))

    def _moved(self, own: TaskTimes) -> _Adapted:
        """The leaves' values after ridge regression of what the trained model gets wrong."""
        forest, before = self._trained.forest, self._trained.log_seconds(own.features)
        shift = _constant(own, own.log_seconds - before)
        if not forest.trees:
            return _Adapted(forest.values, self._trained.offset + shift, Forest(()))
        members = _one_hot(forest.leaves(own.features))
        # Counts of trees, exact in any order of summation.
        kernel = (members @ members.T).astype(np.float64) / len(forest.trees)
        kernel[np.diag_indices(len(own))] += _TRUST
        expected = before + shift
        weights: Array = np.zeros(len(own))
        for _ in range(_ROUNDS if own.bounds.any() else 1):
            left = observed(own, expected) - before - shift
            weights = np.linalg.solve(kernel, left)
            expected = before + shift + left - _TRUST * weights
        moved = (weights.astype(np.float64) @ members).reshape(len(forest.trees), LEAVES) / len(forest.trees)
        # Rounded, so that the order in which threads sum makes no difference.
        return _Adapted(forest.values + np.round(moved, 7), self._trained.offset + shift, Forest(()))

    def _grown(self, own: TaskTimes) -> Forest:
        """Trees of the task's own, for what is left."""
        leaves = min(LEAVES, len(own) // _EACH_LEAF)
        if leaves < 2:
            return Forest(())
        expected = -self.predict(own.features)
        parameters = {**_OWN, "num_leaves": leaves, "seed": self.seed, "num_threads": self.threads}
        return Forest(boosted(own.features, observed(own, expected) - expected, parameters, _OWN_TREES))


def _constant(own: TaskTimes, left: Array) -> float:
    """What all of a task's measurements have in common; lower bounds only count where there is nothing else."""
    sure = np.isfinite(own.seconds) & ~own.bounds
    return float(left[sure if sure.any() else np.isfinite(own.seconds)].mean())


def observed(own: TaskTimes, expected: Array) -> Array:
    """log2 of the times, where `expected` stands for a lower bound that is below it."""
    logs = own.log_seconds
    seen: Array = np.where(own.bounds, np.maximum(logs, expected), logs)
    return seen


def _one_hot(leaves: Places) -> npt.NDArray[np.float32]:
    """(n, trees * LEAVES): 1 for the leaves of a row, else 0."""
    rows, trees = leaves.shape
    out = np.zeros((rows, trees * LEAVES), np.float32)
    out[np.arange(rows)[:, None], np.arange(trees) * LEAVES + leaves] = 1.0
    return out


def spread(own: TaskTimes, count: int) -> TaskTimes:
    """At most `count` measurements: the fastest, as half of them, and every so many of the others by rank."""
    if len(own) <= count:
        return own
    ranked = np.argsort(own.seconds, kind="stable")
    fastest = count // 2
    others = np.linspace(fastest, len(ranked) - 1, count - fastest).astype(np.int64)
    return own.at(np.sort(np.concatenate([ranked[:fastest], ranked[others]])))
