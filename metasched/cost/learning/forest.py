"""A forest of small regression trees as arrays, evaluated with NumPy alone.

A tree has up to eight leaves. For each row a tree keeps a set of leaves as the bits of a byte: a condition that does
not hold rules out those on its left, and the first that is left is the row's. It is QuickScorer's way (Lucchese et al.,
SIGIR 2015), over all trees and many rows at a time, so that every step is one operation on an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

LEAVES = 8
# Rows evaluated at a time: what a step makes for some hundred trees stays in the second-level cache.
_CHUNK_ROWS = 128
_ALL_LEAVES = 0xFF

Places = np.ndarray[Any, np.dtype[np.uint8]]
# For each set of leaves the first of them.
_FIRST_LEAF = np.array([0, *((bits & -bits).bit_length() - 1 for bits in range(1, 256))], np.uint8)


@dataclass(frozen=True)
class Tree:
    """A regression tree.

    A node is (feature by position, threshold, leaves that are left where the feature is above it, as bits). `values`
    are those of the leaves, from left to right.
    """

    nodes: tuple[tuple[int, np.float32, int], ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Forest:
    """A sum of trees, over features by position."""

    trees: tuple[Tree, ...]

    @cached_property
    def values(self) -> Array:
        """The values of every leaf, (trees, LEAVES); zeros where a tree has fewer."""
        out = np.zeros((len(self.trees), LEAVES))
        for n, tree in enumerate(self.trees):
            out[n, : len(tree.values)] = tree.values
        return out

    def with_values(self, values: Array) -> Forest:
        """A forest of these trees with other values of the leaves, (trees, LEAVES), to seven digits; itself where all
        are equal.
        """
        if np.array_equal(values, self.values):
            return self
        return Forest(
            tuple(
                Tree(tree.nodes, tuple(float(f"{value:.7g}") for value in of_tree[: len(tree.values)]))
                for tree, of_tree in zip(self.trees, values, strict=True)
            )
        )

    def predict(self, features: Features, values: Array | None = None) -> Array:
        """The sum of each row's leaves, float64 of shape (n,).

        Args:
            features: float32 of shape (n, F).
            values: other values of the leaves, of shape (trees, LEAVES).
        """
        out = np.zeros(len(features))
        if self.trees and len(features):
            table = self._own_table if values is None else _values_of_sets(values)
            first = np.arange(len(self.trees))[:, None] * (_ALL_LEAVES + 1)
            for start in range(0, len(features), _CHUNK_ROWS):
                left = self._conditions.possible_leaves(features[start : start + _CHUNK_ROWS])
                np.add.reduce(table.take(left + first), axis=0, out=out[start : start + _CHUNK_ROWS])
        return out

    @cached_property
    def _own_table(self) -> Array:
        # Made anew it takes as long as the rest does for a hundred rows.
        return _values_of_sets(self.values)

    def leaves(self, features: Features) -> Places:
        """The leaf of every row in every tree, uint8 of shape (n, trees)."""
        out = np.empty((len(features), len(self.trees)), np.uint8)
        for start in range(0, len(features) if self.trees else 0, _CHUNK_ROWS):
            out[start : start + _CHUNK_ROWS] = _FIRST_LEAF[
                self._conditions.possible_leaves(features[start : start + _CHUNK_ROWS])
            ].T
        return out

    @cached_property
    def _conditions(self) -> _Conditions:
        return _Conditions.from_trees(self.trees)


@dataclass(frozen=True)
class _Conditions:
    """The nodes of a forest as arrays (nodes, trees): what is the n-th of each tree is evaluated at once.

    Trees with fewer nodes than others have conditions that rule nothing out.
    """

    features: np.ndarray[Any, np.dtype[np.intp]]
    thresholds: Features
    above: Places

    @classmethod
    def from_trees(cls, trees: tuple[Tree, ...]) -> _Conditions:
        shape = (max(len(tree.nodes) for tree in trees), len(trees))
        found = cls(np.zeros(shape, np.intp), np.zeros(shape, np.float32), np.full(shape, _ALL_LEAVES, np.uint8))
        for at, tree in enumerate(trees):
            for n, node in enumerate(tree.nodes):
                found.features[n, at], found.thresholds[n, at], found.above[n, at] = node
        return found

    def possible_leaves(self, features: Features) -> Places:
        """The leaves that no condition rules out, as bits, (trees, rows); the first of them is the row's."""
        columns = np.ascontiguousarray(features.T)
        shape = (self.features.shape[1], len(features))
        left, holds, values = (
            np.full(shape, _ALL_LEAVES, np.uint8),
            np.empty(shape, np.bool_),
            np.empty(shape, np.float32),
        )
        # The same bytes as numbers, and as bits.
        number, bits = holds.view(np.int8), holds.view(np.uint8)
        for which, threshold, above in zip(self.features, self.thresholds, self.above, strict=True):
            # Places are in range, and need no look.
            np.take(columns, which, axis=0, out=values, mode="clip")
            np.less_equal(values, threshold[:, None], out=holds)
            # -1, all bits, where the condition holds.
            np.negative(number, out=number)
            np.bitwise_or(bits, above[:, None], out=bits)
            np.bitwise_and(left, bits, out=left)
        return left


def _values_of_sets(values: Array) -> Array:
    """The value for every set of leaves of each tree, of shape (trees * 256,): one look-up for each tree and row."""
    table: Array = values[:, _FIRST_LEAF].ravel()
    return table


def tree_of(node: Mapping[str, Any]) -> Tree:
    """A tree of LightGBM's `dump_model`. Raises ValueError for one with more than LEAVES leaves."""
    nodes: list[tuple[int, np.float32, int]] = []
    values: list[float] = []

    def visit(node: Mapping[str, Any]) -> None:
        if "leaf_value" in node:
            values.append(float(node["leaf_value"]))
            return
        at = len(nodes)
        nodes.append((0, np.float32(0), 0))
        first = len(values)
        visit(node["left_child"])
        on_left = ((1 << len(values)) - 1) ^ ((1 << first) - 1)
        nodes[at] = (int(node["split_feature"]), round_down_to_f32(float(node["threshold"])), _ALL_LEAVES & ~on_left)
        visit(node["right_child"])

    visit(node)
    if len(values) > LEAVES:
        raise ValueError(f"a tree has {len(values)} leaves, and at most {LEAVES} are expected")
    return Tree(tuple(nodes), tuple(values))


def round_down_to_f32(threshold: float) -> np.float32:
    """The largest float32 that is not above: a float32 is at most `threshold` if it is at most that."""
    nearest = np.float32(threshold)
    return nearest if float(nearest) <= threshold else np.nextafter(nearest, np.float32(-np.inf))
