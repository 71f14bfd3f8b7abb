"""Which leaves of a trained model candidates reach: what they have in common, and what moves by their times."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.forest import LEAVES, Places
from metasched.cost.learning.task_times import Positions
from metasched.cost.learning.trained import TrainedModel
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class _ForestMembers:
    """The leaves that candidates at some positions reach in a forest that judges them: `members` is float32 of shape
    (positions, trees * LEAVES), 1 for the leaves of a candidate and else 0."""

    positions: Positions
    members: Features

    @property
    def trees(self) -> int:
        return int(self.members.shape[1]) // LEAVES


@dataclass(frozen=True)
class LeafMembership:
    """The leaves that `count` candidates reach, of each of a model's forests."""

    count: int
    forests: tuple[_ForestMembers, ...]

    @classmethod
    def from_features(cls, model: TrainedModel, features: Features) -> LeafMembership:
        """Which leaves candidates reach, whose features are float32 of shape (n, F)."""
        everyone = np.arange(len(features))
        forests = [
            _ForestMembers(everyone[rows], _one_hot(forest.leaves(features[rows])))
            for forest, rows in model.forests_for(features)
        ]
        return cls(len(features), tuple(forests))

    def common_leaves(self) -> Array:
        """(n, n): in which share of a forest's trees two candidates meet in a leaf, summed over the forests that judge
        both."""
        found = np.zeros((self.count, self.count))
        for one in self.forests:
            if one.trees:
                # Counts of trees, exact in any order of summation.
                meetings = (one.members @ one.members.T).astype(np.float64)
                found[np.ix_(one.positions, one.positions)] += meetings / one.trees
        return found

    def leaf_changes(self, weights: Array) -> Array:
        """The changes of leaves where candidates have weights of shape (n,): (trees of all forests, LEAVES)."""
        return np.concatenate([_forest_changes(weights[one.positions], one) for one in self.forests])


def _forest_changes(weights: Array, one: _ForestMembers) -> Array:
    """The changes of a forest's leaves, (trees, LEAVES)."""
    moves = (weights.astype(np.float64) @ one.members).reshape(one.trees, LEAVES) / max(one.trees, 1)
    # Rounded, so that the order in which threads sum makes no difference.
    rounded: Array = np.round(moves, 7)
    return rounded


def _one_hot(leaves: Places) -> Features:
    """(n, trees * LEAVES): 1 for the leaves of a row, else 0."""
    rows, trees = leaves.shape
    out = np.zeros((rows, trees * LEAVES), np.float32)
    out[np.arange(rows)[:, None], np.arange(trees) * LEAVES + leaves] = 1.0
    return out
