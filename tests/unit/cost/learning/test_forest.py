"""A forest evaluated with NumPy gives what LightGBM gives, and leaves are those that it sums."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from metasched.cost.learning.forest import LEAVES, Forest, Tree, round_down_to_f32, tree_of


def grown(leaves: int, trees: int = 30) -> tuple[lightgbm.Booster, np.ndarray]:
    """A booster, and rows to predict: some of them lie on its thresholds."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(3000, 7)), 1).astype(np.float32)
    y = np.sin(3 * x[:, 0]) + x[:, 1] * (x[:, 2] > 0.3) + rng.normal(size=3000) / 10
    parameters = {"num_leaves": leaves, "num_threads": 1, "verbose": -1}
    return lightgbm.train(parameters, lightgbm.Dataset(x, y), trees), x


def forest_of(booster: lightgbm.Booster) -> Forest:
    return Forest(tuple(tree_of(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]))


@pytest.mark.parametrize("leaves", [2, 5, LEAVES])
def test_a_forest_predicts_what_lightgbm_does(leaves: int) -> None:
    booster, x = grown(leaves)
    forest = forest_of(booster)
    thresholds = np.array([above for tree in forest.trees for _, above, _ in tree.nodes], np.float32)
    # LightGBM reads numbers up to 1e-35 as zero.
    on_the_edge = np.tile(thresholds[np.abs(thresholds) > 1e-30][:, None], 7)
    for rows in (x, on_the_edge, np.nextafter(on_the_edge, np.float32(np.inf)), x[:0]):
        np.testing.assert_allclose(forest.predict(rows), booster.predict(rows) if len(rows) else [], atol=1e-12)


def test_leaves_are_those_whose_values_are_summed() -> None:
    forest = forest_of(grown(6)[0])
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    leaves = forest.leaves(rows)
    assert leaves.shape == (50, len(forest.trees))
    np.testing.assert_allclose(forest.values[np.arange(len(forest.trees)), leaves].sum(axis=1), forest.predict(rows))


def test_other_values_of_the_leaves() -> None:
    forest = forest_of(grown(4)[0])
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    np.testing.assert_allclose(
        forest.predict(rows, 2 * forest.values + 1), 2 * forest.predict(rows) + len(forest.trees)
    )


def test_a_forest_of_other_values_predicts_by_them_and_is_the_same_where_none_is_another() -> None:
    forest = forest_of(grown(4)[0])
    rows = np.random.default_rng(1).normal(size=(50, 7)).astype(np.float32)
    other = forest.with_values(2 * forest.values + 1)
    np.testing.assert_allclose(other.predict(rows), forest.predict(rows, 2 * forest.values + 1), rtol=1e-6)
    assert forest.with_values(forest.values.copy()) == forest


def test_a_tree_that_is_one_leaf_and_no_tree() -> None:
    rows = np.zeros((3, 2), np.float32)
    assert Forest((Tree((), (0.5,)),)).predict(rows).tolist() == [0.5] * 3
    assert Forest(()).predict(rows).tolist() == [0.0] * 3


def test_a_larger_tree_is_refused() -> None:
    with pytest.raises(ValueError, match="9 leaves, and at most 8"):
        forest_of(grown(9)[0])


@pytest.mark.parametrize("threshold", [0.1, 1 / 3, -0.1, 1e-40, 3.0, 16777217.0])
def test_the_float32_below_a_threshold(threshold: float) -> None:
    found = round_down_to_f32(threshold)
    assert float(found) <= threshold < float(np.nextafter(found, np.float32(np.inf)))
