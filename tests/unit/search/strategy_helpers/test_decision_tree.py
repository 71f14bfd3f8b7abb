"""The tree goes where values are high, and looks at all there is."""

from __future__ import annotations

import numpy as np

from metasched.search.strategy_helpers.decision_tree import DecisionTree


def visits(tree: DecisionTree, values: dict[str, float], times: int, exploration: float) -> dict[str, int]:
    """How often each key was taken below the root."""
    for _ in range(times):
        key = tree.choose_decision(tree.root, list(values), exploration)
        tree.add([key], values[key])
    return {str(key): child.visits for key, child in tree.root.children.items()}


def test_the_best_is_visited_most_and_all_are_visited() -> None:
    values = {"a": 1.0, "b": 3.0, "c": 2.0}
    seen = visits(DecisionTree(), values, 60, 1.0)
    assert sum(seen.values()) == 60
    assert seen["b"] > seen["c"] > seen["a"] >= 1
    assert visits(DecisionTree(), values, 60, 5.0)["b"] < seen["b"]


def test_failures_are_the_lowest_and_leave_the_range_alone() -> None:
    tree = DecisionTree()
    tree.add(["bad"], -np.inf)
    tree.add(["good"], 5.0)
    tree.add(["fair"], 4.0)
    tree.add(["worse"], -np.inf)
    assert tree.choose_decision(tree.root, ["bad", "good", "fair", "worse"], 0.0) == "good"
    assert tree.root.children["worse"].total == 4.0


def test_every_node_of_a_path_is_counted() -> None:
    tree = DecisionTree()
    tree.add("abc", 1.0)
    tree.add("abd", 2.0)
    node = tree.root.children["a"].children["b"]
    assert (tree.root.visits, node.visits, node.total) == (2, 2, 3.0)
    assert set(node.children) == {"c", "d"}
