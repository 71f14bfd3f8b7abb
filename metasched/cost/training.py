"""Training a model on measurements of many tasks.

Boosted trees (Friedman 2001), by LightGBM, learn log2 of the time over the hand-made roofline's. Each task is centred:
what all its candidates have in common says nothing of which is the fastest. Several forests, each of a random part of
the tasks, are averaged (Breiman 1996): what holds for a few tasks only, most of them do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.features import Features
from metasched.cost.footprint import Array
from metasched.cost.forest import LEAVES, Forest, Tree, tree_of
from metasched.cost.task_times import TaskTimes
from metasched.cost.trained import UNTRAINED, TrainedModel
from metasched.cost.trees import lightgbm

BAGS = 4
TREES = 75
_SHARE = 0.7
_PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": LEAVES,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}
_ALWAYS: dict[str, Any] = {
    "objective": "regression",
    "boost_from_average": False,
    "max_bin": 63,
    "feature_pre_filter": False,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}


def train(tasks: Sequence[TaskTimes], seed: int = 0, threads: int = 1) -> TrainedModel:
    """A model of what measurements of several tasks have in common. Equal data and seeds give equal models.

    Tasks without a time teach nothing; without any task, the model is the roofline.
    """
    timed = [task for task in tasks if np.isfinite(task.seconds).any()]
    if not timed:
        return UNTRAINED
    trees: list[Tree] = []
    for bag in range(BAGS):
        rng = np.random.default_rng([seed, bag])
        count = max(1, round(_SHARE * len(timed)))
        chosen = [timed[n] for n in np.sort(rng.permutation(len(timed))[:count])]
        trees += _bag(chosen, int(rng.integers(1 << 30)), threads)
    offset = float(np.median([np.mean(residual(task)) for task in timed]))
    return TrainedModel(Forest(tuple(trees)), offset)


def residual(task: TaskTimes) -> Array:
    """log2 of the seconds that a cycle of the roofline took, shape (n,)."""
    left: Array = task.log_seconds + analytic_score(task.features)
    return left


def _bag(tasks: Sequence[TaskTimes], seed: int, threads: int) -> list[Tree]:
    """Trees whose sum is a share of the model: one of BAGS."""
    target = np.concatenate([residual(task) - residual(task).mean() for task in tasks])
    features = np.concatenate([task.features for task in tasks])
    grown = boosted(features, target, {**_PARAMETERS, "seed": seed, "num_threads": threads}, TREES)
    return [Tree(tree.nodes, tuple(value / BAGS for value in tree.values)) for tree in grown]


def boosted(features: Features, target: Array, parameters: Mapping[str, Any], trees: int) -> tuple[Tree, ...]:
    """Trees whose sum approximates `target`, float64 of shape (n,), by boosting; their values have seven digits."""
    package, given = lightgbm(), {**_ALWAYS, **parameters}
    data = package.Dataset(np.ascontiguousarray(features), target, params=given)
    grown = package.train(given, data, trees).dump_model()["tree_info"]
    return tuple(_rounded(tree_of(tree["tree_structure"])) for tree in grown)


def _rounded(tree: Tree) -> Tree:
    return Tree(tree.nodes, tuple(float(f"{value:.7g}") for value in tree.values))
