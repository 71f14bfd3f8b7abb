"""What candidates have in common in the forests that judge them, and which leaves move by their times."""

from __future__ import annotations

import numpy as np

from metasched.cost.features import NAMES
from metasched.cost.learning.forest import LEAVES, Forest, Tree
from metasched.cost.learning.leaf_membership import LeafMembership
from metasched.cost.learning.trained import TrainedModel

OPERATION, PAIRS = NAMES.index("s0.flops_per_operation"), NAMES.index("s0.accumulators")


def stump(above: float) -> Tree:
    return Tree(((PAIRS, np.float32(above), 0b10),), (-1.0, 1.0))


MODEL = TrainedModel(Forest((stump(1), stump(2))), tiles=Forest((stump(3),)))


def rows(*pairs: float, in_tiles: tuple[int, ...] = ()) -> np.ndarray:
    features = np.zeros((len(pairs), len(NAMES)), np.float32)
    features[:, PAIRS] = pairs
    features[list(in_tiles), OPERATION] = 14.0
    return features


def test_candidates_have_the_leaves_of_each_forest_in_common_that_judges_both() -> None:
    found = LeafMembership.from_features(MODEL, rows(0, 1.5, 4, 0, in_tiles=(2, 3))).common_leaves()
    assert np.array_equal(found, [[1, 0.5, 0, 1], [0.5, 1, 0.5, 0.5], [0, 0.5, 2, 0], [1, 0.5, 0, 2]])


def test_leaves_move_by_those_candidates_that_reach_them() -> None:
    membership = LeafMembership.from_features(MODEL, rows(0, 1.5, 4, in_tiles=(2,)))
    moves = membership.leaf_changes(np.array([1.0, 2.0, 8.0]))
    assert moves.shape == (3, LEAVES)
    assert np.array_equal(moves[:, :2], [[0.5, 5.0], [1.5, 4.0], [0.0, 8.0]])
    assert not moves[:, 2:].any()


def test_where_nothing_is_in_tiles_their_forest_stays_as_it_is() -> None:
    features, weights = rows(0, 1.5, 4), np.array([1.0, 2.0, 8.0])
    both, first = (
        LeafMembership.from_features(MODEL, features),
        LeafMembership.from_features(TrainedModel(MODEL.forest), features),
    )
    assert np.array_equal(both.common_leaves(), first.common_leaves())
    assert np.array_equal(both.leaf_changes(weights)[:2], first.leaf_changes(weights))
    assert not both.leaf_changes(weights)[2:].any()
