"""Training a model on measurements of many tasks.

Boosted trees (Friedman 2001), by LightGBM, learn log2 of the time over the hand-made roofline's. Each task is centred:
what all its candidates have in common says nothing of which is the fastest. Several forests, each of a random part of
the tasks, are averaged (Breiman 1996): what holds for a few tasks only, most of them do not have.

Tasks most of whose candidates compute in tile registers teach a second forest, of what the first gets wrong of these.
One forest for all ranks .796 of the pairs of such tasks right that it has not seen, and two .824.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.forest import LEAVES, Forest, Tree, tree_of
from metasched.cost.learning.lightgbm_package import lightgbm
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL, TrainedModel, TrainingFacts, uses_tiles
from metasched.support.data_classes import dataclass

BAGS = 4
TREES = 75
_BAG_SHARE = 0.7
# The share of a task's candidates from which on it is a task of tile registers.
_LEAST_TILE_SHARE = 0.5
_PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": LEAVES,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}
_FIXED_PARAMETERS: dict[str, Any] = {
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

    Tasks without a time teach nothing; without any task, the model is the roofline. Of its facts it has how much each
    feature gains.
    """
    timed = [task for task in tasks if np.isfinite(task.seconds).any()]
    if not timed:
        return UNTRAINED_MODEL
    others = [task for task in timed if not is_tile_task(task)]
    common = _average_forests([_Lesson(task, centre_residual(task, UNTRAINED_MODEL)) for task in others], seed, threads)
    offset = float(np.median([np.mean(residual(task)) for task in others or timed]))
    model = TrainedModel(Forest(common.trees), offset, TrainingFacts(gains=_sort_gains(common.gains)))
    return add_tile_forest(model, timed, seed, threads)


def is_tile_task(task: TaskTimes) -> bool:
    """Whether most of a task's candidates compute in tile registers."""
    return float(np.mean(uses_tiles(task.features))) > _LEAST_TILE_SHARE


def add_tile_forest(model: TrainedModel, tasks: Sequence[TaskTimes], seed: int = 0, threads: int = 1) -> TrainedModel:
    """A model with another forest for tile registers, of what its first gets wrong of those tasks that have them."""
    first = replace(model, tiles=Forest(()))
    tiles = _average_forests([_tile_lesson(task, first) for task in tasks if is_tile_task(task)], seed, threads)
    return replace(model, tiles=Forest(tiles.trees))


def residual(task: TaskTimes, model: TrainedModel | None = None) -> Array:
    """log2 of the seconds that a cycle of the roofline took, or of the time over what a model expects; shape (n,)."""
    before = -analytic_score(task.features) if model is None else model.log_seconds(task.features)
    left: Array = task.log_seconds - before
    return left


def centre_residual(task: TaskTimes, model: TrainedModel) -> Array:
    """log2 of the time over what a model expects, shape (n,), less the task's mean; of a lower bound, not below it."""
    left = residual(task, model)
    constant = task.common_part(left)
    left = np.where(task.bounds, np.maximum(left, constant), left)
    return left - float(left.mean())


@dataclass(frozen=True)
class _Lesson:
    """A task, and what is to be learned of each of its candidates, (n,)."""

    task: TaskTimes
    target: Array


def _tile_lesson(task: TaskTimes, model: TrainedModel) -> _Lesson:
    """A lesson of what a model gets wrong of the candidates that compute in tile registers."""
    at = np.flatnonzero(uses_tiles(task.features))
    return _Lesson(task.select(at), centre_residual(task, model)[at])


def _average_forests(lessons: Sequence[_Lesson], seed: int, threads: int) -> GrownTrees:
    """Average several forests, each trained on a random part of what there is to learn."""
    trees: list[Tree] = []
    gains: defaultdict[str, float] = defaultdict(float)
    for bag in range(BAGS if lessons else 0):
        rng = np.random.default_rng([seed, bag])
        count = max(1, round(_BAG_SHARE * len(lessons)))
        chosen = [lessons[n] for n in np.sort(rng.permutation(len(lessons))[:count])]
        features = np.concatenate([lesson.task.features for lesson in chosen])
        target = np.concatenate([lesson.target for lesson in chosen])
        given = {**_PARAMETERS, "seed": int(rng.integers(1 << 30)), "num_threads": threads}
        grown = boost_trees(features, target, given, TREES)
        for name, gain in grown.gains.items():
            gains[name] += gain
        trees += [Tree(tree.nodes, tuple(value / BAGS for value in tree.values)) for tree in grown.trees]
    return GrownTrees(tuple(trees), gains)


@dataclass(frozen=True)
class GrownTrees:
    """Trees whose sum approximates a target, and by how much the splits on each feature, by name, reduced the error."""

    trees: tuple[Tree, ...]
    gains: Mapping[str, float]


def boost_trees(features: Features, target: Array, parameters: Mapping[str, Any], trees: int) -> GrownTrees:
    """Trees for a `target`, float64 of shape (n,), by boosting; their values have seven digits."""
    package, given = lightgbm(), {**_FIXED_PARAMETERS, **parameters}
    data = package.Dataset(np.ascontiguousarray(features), target, params=given)
    found = [tree["tree_structure"] for tree in package.train(given, data, trees).dump_model()["tree_info"]]
    gains: defaultdict[str, float] = defaultdict(float)
    for tree in found:
        _add_gains(tree, gains)
    return GrownTrees(tuple(_round_values(tree_of(tree)) for tree in found), gains)


def _add_gains(node: Mapping[str, Any], gains: defaultdict[str, float]) -> None:
    if "split_feature" in node:
        gains[NAMES[node["split_feature"]]] += float(node["split_gain"])
        _add_gains(node["left_child"], gains)
        _add_gains(node["right_child"], gains)


def _sort_gains(gains: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Gains to seven digits, in the order of features."""
    return tuple((name, float(f"{gains[name]:.7g}")) for name in NAMES if gains.get(name))


def _round_values(tree: Tree) -> Tree:
    return Tree(tree.nodes, tuple(float(f"{value:.7g}") for value in tree.values))
