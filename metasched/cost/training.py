"""Training a model on measurements of many tasks.

Boosted trees (Friedman 2001), by LightGBM, learn log2 of the time over the hand-made roofline's. Each task is centred:
what all its candidates have in common says nothing of which is the fastest. Several forests, each of a random part of
the tasks, are averaged (Breiman 1996): what holds for a few tasks only, most of them do not have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, Features
from metasched.cost.footprint import Array
from metasched.cost.forest import LEAVES, Forest, Tree, tree_of
from metasched.cost.task_times import TaskTimes
from metasched.cost.trained import UNTRAINED, TrainedModel, TrainingFacts
from metasched.cost.trees import lightgbm
from metasched.support.data_classes import dataclass

BAGS = 4
TREES = 100
_SHARE = 0.7
# How often a task counts some of whose candidates compute in tile registers. There are fewer of these, and what ranks
# them ranks nothing else: counted twice, of other such tasks .814 of the pairs are ranked right instead of .804.
_COUNTS_IN_TILES = 2
_PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.15,
    "num_leaves": LEAVES,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}
_OF_OPERATION = NAMES.index("s0.flops_per_operation")
# log2 of the floating-point operations that one use of tile registers does, and of no vector.
_LEAST_OF_TILES = 12.0
_ALWAYS: dict[str, Any] = {
    "objective": "regression",
    "boost_from_average": False,
    "max_bin": 63,
    "feature_pre_filter": False,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}


def train(
    tasks: Sequence[TaskTimes], seed: int = 0, threads: int = 1, facts: TrainingFacts = UNTRAINED.facts
) -> TrainedModel:
    """A model of what measurements of several tasks have in common. Equal data and seeds give equal models.

    Tasks without a time teach nothing; without any task, the model is the roofline. `facts` say what the tasks are; how
    much each feature gains is added.
    """
    timed = [task for task in tasks if np.isfinite(task.seconds).any() for _ in range(_counts(task))]
    if not timed:
        return UNTRAINED
    trees: list[Tree] = []
    gains: defaultdict[str, float] = defaultdict(float)
    for bag in range(BAGS):
        rng = np.random.default_rng([seed, bag])
        count = max(1, round(_SHARE * len(timed)))
        chosen = [timed[n] for n in np.sort(rng.permutation(len(timed))[:count])]
        grown = _grown(chosen, UNTRAINED, TREES, {"seed": int(rng.integers(1 << 30)), "num_threads": threads})
        for name, gain in grown.gains.items():
            gains[name] += gain
        trees += [Tree(tree.nodes, tuple(value / BAGS for value in tree.values)) for tree in grown.trees]
    offset = float(np.median([np.mean(residual(task)) for task in timed]))
    return TrainedModel(Forest(tuple(trees)), offset, replace(facts, gains=_sorted(gains)))


def _counts(task: TaskTimes) -> int:
    in_tiles = task.features[:, _OF_OPERATION] >= _LEAST_OF_TILES
    return _COUNTS_IN_TILES if in_tiles.any() else 1


def residual(task: TaskTimes, model: TrainedModel | None = None) -> Array:
    """log2 of the seconds that a cycle of the roofline took, or of the time over what a model expects; shape (n,)."""
    before = -analytic_score(task.features) if model is None else model.log_seconds(task.features)
    left: Array = task.log_seconds - before
    return left


def centred(task: TaskTimes, model: TrainedModel) -> Array:
    """log2 of the time over what a model expects, shape (n,), less the task's mean; of a lower bound, not below it."""
    left = residual(task, model)
    constant = task.constant(left)
    left = np.where(task.bounds, np.maximum(left, constant), left)
    return left - float(left.mean())


@dataclass(frozen=True)
class Grown:
    """Trees whose sum approximates a target, and by how much the splits on each feature, by name, reduced the error."""

    trees: tuple[Tree, ...]
    gains: Mapping[str, float]


def boosted(features: Features, target: Array, parameters: Mapping[str, Any], trees: int) -> Grown:
    """Trees for a `target`, float64 of shape (n,), by boosting; their values have seven digits."""
    package, given = lightgbm(), {**_ALWAYS, **parameters}
    data = package.Dataset(np.ascontiguousarray(features), target, params=given)
    found = [tree["tree_structure"] for tree in package.train(given, data, trees).dump_model()["tree_info"]]
    gains: defaultdict[str, float] = defaultdict(float)
    for tree in found:
        _add_gains(tree, gains)
    return Grown(tuple(_rounded(tree_of(tree)) for tree in found), gains)


def _grown(tasks: Sequence[TaskTimes], base: TrainedModel, trees: int, parameters: Mapping[str, Any]) -> Grown:
    """Trees for what a model gets wrong of some tasks, each of which is centred."""
    target = np.concatenate([centred(task, base) for task in tasks])
    features = np.concatenate([task.features for task in tasks])
    return boosted(features, target, {**_PARAMETERS, **parameters}, trees)


def _add_gains(node: Mapping[str, Any], gains: defaultdict[str, float]) -> None:
    if "split_feature" in node:
        gains[NAMES[node["split_feature"]]] += float(node["split_gain"])
        _add_gains(node["left_child"], gains)
        _add_gains(node["right_child"], gains)


def _sorted(gains: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Gains to seven digits, in the order of features."""
    return tuple((name, float(f"{gains[name]:.7g}")) for name in NAMES if gains.get(name))


def _rounded(tree: Tree) -> Tree:
    return Tree(tree.nodes, tuple(float(f"{value:.7g}") for value in tree.values))
