"""Ensembles of trees, against ONNX's reference where it has what runtimes compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.graph.ir import Compute
from tests.support.onnx_models import model, node, value
from tests.support.tree_models import DOMAIN, ORDERED, as_classes, random_trees, some_rows

CLASSIFIER, REGRESSOR = "TreeEnsembleClassifier", "TreeEnsembleRegressor"


def ensemble(op: str, x: Any, attributes: dict[str, Any], version: int = 3) -> Any:
    """A model of one node."""
    outputs = ["L", "S"] if op == CLASSIFIER else ["Y"]
    made = model(
        [node(op, "X", " ".join(outputs), domain=DOMAIN, **attributes)], [value("X", x)], outputs, domains=[DOMAIN]
    )
    made.opset_import[1].version = version
    return made


def check(op: str, x: Any, attributes: dict[str, Any], tolerance: float = 2e-6) -> None:
    """Compare a node with ONNX's reference."""
    # The reference takes no default for these.
    defaults = {"n_targets": 1, "aggregate_function": "SUM"} if op == REGRESSOR else {}
    made = ensemble(op, x, {**defaults, **attributes})
    wanted = ReferenceEvaluator(made).run(None, {"X": x})
    found = ms.load_onnx(made)(x)
    for got, one in zip(found if isinstance(found, tuple) else [found], wanted, strict=True):
        np.testing.assert_allclose(got, one, rtol=tolerance, atol=tolerance)


def refusal(op: str, attributes: dict[str, Any], columns: int = 4, version: int = 3) -> str:
    """Why a node is refused."""
    with pytest.raises(ms.RefusedModel) as refused:
        ms.load_onnx(ensemble(op, np.zeros((2, columns), np.float32), attributes, version))
    return refused.value.refusals[0].reason


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("modes", [*((mode,) for mode in ORDERED), (*ORDERED, "BRANCH_EQ")], ids=str)
def test_each_mode_compares_as_onnx_says(modes: tuple[str, ...], missing: bool) -> None:
    check(REGRESSOR, some_rows(60, 4), random_trees(5, 4, 4, modes=modes, missing=missing))


def test_a_number_that_is_missing_is_unequal() -> None:
    trees = random_trees(1, 1, 1, modes=("BRANCH_NEQ",))
    trees["nodes_values"][0] = 1.0
    found = ms.load_onnx(ensemble(REGRESSOR, np.zeros((3, 1), np.float32), trees))(np.float32([[1], [2], [np.nan]]))
    unequal, equal = np.float32(trees["target_weights"])
    np.testing.assert_array_equal(found[:, 0], [equal, unequal, unequal])


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("how", ["SUM", "AVERAGE"])
def test_targets_are_added_up(how: str, targets: int) -> None:
    trees = random_trees(7, 3, 4, targets=targets)
    check(REGRESSOR, some_rows(20, 4), {**trees, "n_targets": targets, "aggregate_function": how})
    base = [0.5, -1.0, 2.0][:targets]
    check(REGRESSOR, some_rows(20, 4), {**trees, "n_targets": targets, "aggregate_function": how, "base_values": base})


@pytest.mark.parametrize("how", ["MIN", "MAX"])
def test_extrema_are_taken_and_nothing_is_zero(how: str) -> None:
    check(REGRESSOR, some_rows(20, 4), {**random_trees(7, 3, 4), "aggregate_function": how})
    # ONNX's reference leaves the least or largest number where no leaf says anything.
    trees = random_trees(2, 2, 4, targets=3)
    x = some_rows(9, 4)
    total = ms.load_onnx(ensemble(REGRESSOR, x, {**trees, "n_targets": 3}))(x)
    found = ms.load_onnx(ensemble(REGRESSOR, x, {**trees, "n_targets": 3, "aggregate_function": how}))(x)
    np.testing.assert_array_equal(found == 0, total == 0)
    assert np.isfinite(found).all()


def test_trees_of_a_target_each_and_of_several() -> None:
    """Boosted trees of classes have one each, in turn; leaves of forests say something of all."""
    trees = random_trees(8, 3, 4)
    trees["target_ids"] = [tree % 2 for tree in trees["target_treeids"]]
    check(REGRESSOR, some_rows(20, 4), {**trees, "n_targets": 2})
    several = {name: [*trees[name], *trees[name]] for name in ("target_treeids", "target_nodeids", "target_weights")}
    several["target_ids"] = [0] * len(trees["target_ids"]) + [2] * len(trees["target_ids"])
    check(REGRESSOR, some_rows(20, 4), {**trees, **several, "n_targets": 3})


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.int32])
def test_other_types_of_inputs(dtype: Any) -> None:
    x = np.nan_to_num(some_rows(20, 4), posinf=9, neginf=-9).astype(dtype)
    check(CLASSIFIER, x, as_classes(random_trees(6, 3, 4, targets=3), [0, 1, 2]))


def test_thresholds_of_f64_tell_apart_what_those_of_f32_do_not() -> None:
    trees = random_trees(1, 1, 1)
    del trees["nodes_values"]
    trees["nodes_values_as_tensor"] = onnx.numpy_helper.from_array(np.array([1 + 1e-12, 0, 0]))
    x = np.array([[1.0], [1 + 1e-11]])
    found = ms.load_onnx(ensemble(REGRESSOR, x, trees))(x)
    np.testing.assert_array_equal(found[:, 0], np.float32(trees["target_weights"]))


def test_trees_of_different_depths_are_a_few_programs() -> None:
    deep, flat = random_trees(1, 14, 4, seed=2), random_trees(60, 2, 4)
    together = dict(flat)
    for name, given in deep.items():
        moved = [n + 60 for n in given] if name.endswith("treeids") else given
        together[name] = [*flat[name], *moved]
    x = some_rows(20, 4)
    check(REGRESSOR, x, together)
    nodes = ms.load_onnx(ensemble(REGRESSOR, x, together)).graph.nodes
    steps = [str(n.program).count("<= V[") for n in nodes if isinstance(n, Compute)]
    assert [count for count in steps if count] == [2, 14]


def test_a_tree_that_is_a_leaf() -> None:
    alone = {f"nodes_{name}": [0] for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")}
    leaf = {"nodes_values": [0.0], "nodes_modes": ["LEAF"]}
    weight = {"target_treeids": [0], "target_nodeids": [0], "target_ids": [0], "target_weights": [1.5]}
    check(REGRESSOR, some_rows(3, 4), {**alone, **leaf, **weight})


# --- classifiers


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_labels_and_scores_of_classes(transform: str) -> None:
    trees = random_trees(6, 3, 4, targets=3)
    check(CLASSIFIER, some_rows(40, 4), as_classes(trees, [5, 7, 9], post_transform=transform))


def test_equal_numbers_of_trees_for_each_class() -> None:
    trees = random_trees(9, 3, 4)
    trees["target_ids"] = [tree % 3 for tree in trees["target_treeids"]]
    check(CLASSIFIER, some_rows(40, 4), as_classes(trees, [0, 1, 2], post_transform="SOFTMAX"))


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX"])
def test_one_score_for_two_classes(transform: str) -> None:
    check(CLASSIFIER, some_rows(40, 4), as_classes(random_trees(6, 3, 4), [3, 8], post_transform=transform))


@pytest.mark.parametrize("positive", [False, True])
def test_the_first_class_has_what_the_second_leaves(positive: bool) -> None:
    """As ONNX Runtime computes it: the second label is for more than 0, and for more than half of a share."""
    trees = as_classes(random_trees(6, 3, 4), [3, 8])
    if positive:
        trees["class_weights"] = [abs(weight) / 6 for weight in trees["class_weights"]]
    x = some_rows(40, 4)
    labels, scores = ms.load_onnx(ensemble(CLASSIFIER, x, trees))(x)
    np.testing.assert_allclose(scores[:, 0], 1 - scores[:, 1] if positive else -scores[:, 1], atol=1e-6)
    np.testing.assert_array_equal(labels, np.where(scores[:, 1] > (0.5 if positive else 0.0), 8, 3))


def test_labels_that_are_texts_are_refused_where_they_are_used() -> None:
    trees = as_classes(random_trees(6, 3, 4, targets=2), [])
    del trees["classlabels_int64s"]
    trees["classlabels_strings"] = ["cat", "dog"]
    assert "its labels are texts" in refusal(CLASSIFIER, trees)
    x = some_rows(5, 4)
    for outputs in ("- S", "L S"):
        made = model([node(CLASSIFIER, "X", outputs, domain=DOMAIN, **trees)], [value("X", x)], ["S"], domains=[DOMAIN])
        assert ms.load_onnx(made)(x).shape == (5, 2)


# --- trees with leaves apart


def test_leaves_apart_and_members_of_sets() -> None:
    attributes = {
        "nodes_splits": np.float32([2, np.nan, 1]),
        "nodes_featureids": [0, 1, 2],
        "nodes_modes": np.uint8([0, 6, 3]),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falseleafs": [0, 1, 1],
        "membership_values": np.float32([3, -1, 1, 2, np.nan]),
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": np.float32([1, 10, 100, 1000]),
        "tree_roots": [0],
        "n_targets": 2,
        "nodes_missing_value_tracks_true": [0, 1, 0],
    }
    tensors = {
        name: onnx.numpy_helper.from_array(given) if isinstance(given, np.ndarray) else given
        for name, given in attributes.items()
    }
    x = np.float32([[2, member, column] for member in (-2, -1, 0, 1, 2, 3, 4, np.nan) for column in (0, 1, 2)])
    x[::5, 0] = 9
    made = ensemble("TreeEnsemble", x, tensors, version=5)
    found = ms.load_onnx(made)(x)
    wanted = np.zeros((len(x), 2))
    for row, (first, second, third) in zip(wanted, x, strict=True):
        row[:] = [0, 10] if first <= 2 else [100, 0] if third > 1 else [0, 1000]
        if first <= 2 and (np.isnan(second) or second in (-1, 1, 2, 3)):
            row[:] = [1, 0]
    np.testing.assert_array_equal(found, wanted)


# --- what is wrong


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"nodes_truenodeids": (0, 99)}, "there is no node 99 in the tree 0"),
        ({"nodes_truenodeids": (0, 0)}, "two branches lead to the test in row 0"),
        ({"nodes_featureids": (0, 4)}, "a test is of the column 4, and the input has 4 of them"),
        ({"nodes_featureids": (0, -1)}, "a test is of the column -1"),
        ({"nodes_nodeids": (1, 0)}, "the node 0 of the tree 0 is there twice"),
        ({"nodes_modes": (0, "BRANCH_NEAR")}, 'a mode of its nodes is "BRANCH_NEAR"'),
        ({"nodes_values": (0, float("nan"))}, "compares with NaN"),
        ({"target_ids": (0, 1)}, "a leaf adds to the target 1, and there are 1 of them"),
        ({"target_nodeids": (0, 99)}, "there is no node 99 in the tree 0"),
    ],
    ids=lambda given: str(next(iter(given.items()))) if isinstance(given, dict) else "",
)
def test_what_is_no_tree_is_refused(changed: dict[str, tuple[int, Any]], reason: str) -> None:
    trees = random_trees(2, 3, 4)
    for name, (place, given) in changed.items():
        trees[name][place] = given
    assert reason in refusal(REGRESSOR, trees)


@pytest.mark.parametrize("targets", [0, -1, 10**12])
def test_targets_that_cannot_be_are_refused(targets: int) -> None:
    assert f"it has {targets} targets" in refusal(REGRESSOR, {**random_trees(2, 3, 4), "n_targets": targets})


def test_a_table_of_leaves_that_is_too_large_is_refused() -> None:
    trees = random_trees(60, 7, 4, targets=3)
    assert "a table of what each adds to each is too large" in refusal(REGRESSOR, {**trees, "n_targets": 60_000})


def test_lists_of_other_lengths_are_refused() -> None:
    trees = random_trees(2, 3, 4)
    trees["nodes_values"].pop()
    assert "`nodes_values`" in refusal(REGRESSOR, trees)
    trees = random_trees(2, 3, 4)
    trees["target_ids"].pop()
    assert "`target_weights`" in refusal(REGRESSOR, trees)


def test_a_tree_that_is_too_deep_is_refused() -> None:
    count = 600
    chain = {
        "nodes_treeids": [0] * (2 * count + 1),
        "nodes_nodeids": list(range(2 * count + 1)),
        "nodes_featureids": [0] * (2 * count + 1),
        "nodes_values": [0.0] * (2 * count + 1),
        "nodes_modes": ["BRANCH_LEQ", "LEAF"] * count + ["LEAF"],
        "nodes_truenodeids": [n + 1 for n in range(2 * count + 1)],
        "nodes_falsenodeids": [n + 2 for n in range(2 * count + 1)],
        "target_treeids": [0],
        "target_nodeids": [1],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    assert refusal(REGRESSOR, chain) == "a tree has more than 512 levels"


def test_leaves_that_are_no_numbers_of_leaves_are_refused() -> None:
    attributes = {
        "nodes_splits": onnx.numpy_helper.from_array(np.float32([2])),
        "nodes_featureids": [0],
        "nodes_modes": onnx.numpy_helper.from_array(np.uint8([0])),
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [7],
        "nodes_trueleafs": [1],
        "nodes_falseleafs": [1],
        "leaf_targetids": [0, 0],
        "leaf_weights": onnx.numpy_helper.from_array(np.float32([1, 2])),
        "tree_roots": [0],
        "n_targets": 1,
    }
    assert refusal("TreeEnsemble", attributes, version=5) == "the node 0 goes to the leaf 7, which is not there"
