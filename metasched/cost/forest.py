"""A forest of small regression trees as arrays, evaluated with NumPy alone.

A tree has up to eight leaves. For each row a tree keeps a set of leaves as the bits of a byte: a condition that does
not hold rules out those on its left, and the first that is left is the row's. It is QuickScorer's way (Lucchese et al.,
SIGIR 2015), over whole columns instead of rows, so that every step is one operation on an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from metasched.cost.features import Features
from metasched.cost.footprint import Array

LEAVES = 8
# Rows evaluated at a time: a step has enough to do, and what it makes stays in the second-level cache.
_CHUNK = 4096
_ALL = 0xFF

Places = np.ndarray[Any, np.dtype[np.uint8]]
# For each set of leaves the first of them.
_FIRST = np.array([0, *((bits & -bits).bit_length() - 1 for bits in range(1, 256))], np.uint8)


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
        """Of every leaf, (trees, LEAVES); zeros where a tree has fewer."""
        out = np.zeros((len(self.trees), LEAVES))
        for n, tree in enumerate(self.trees):
            out[n, : len(tree.values)] = tree.values
        return out

    def predict(self, features: Features, values: Array | None = None) -> Array:
        """The sum of each row's leaves, float64 of shape (n,).

        Args:
            features: float32 of shape (n, F).
            values: other values of the leaves, of shape (trees, LEAVES).
        """
        used = self.values if values is None else values
        # The value for every set of leaves: one look-up a tree.
        table = used[:, _FIRST]
        out = np.zeros(len(features))
        for start in range(0, len(features), _CHUNK):
            part = np.ascontiguousarray(features[start : start + _CHUNK].T)
            total, work = out[start : start + _CHUNK], _Work(part.shape[1])
            for number, tree in enumerate(self.trees):
                total += table[number].take(work.left(tree, part))
        return out

    def leaves(self, features: Features) -> Places:
        """The leaf of every row in every tree, uint8 of shape (n, trees)."""
        out = np.empty((len(features), len(self.trees)), np.uint8)
        columns = np.ascontiguousarray(features.T)
        work = _Work(len(features))
        for number, tree in enumerate(self.trees):
            out[:, number] = _FIRST[work.left(tree, columns)]
        return out


class _Work:
    """Arrays of a value for each of `rows` rows, that are used for one tree after another: making them anew takes a
    third of the time."""

    def __init__(self, rows: int) -> None:
        self._left = np.empty(rows, np.uint8)
        self._holds = np.empty(rows, np.bool_)
        # The same bytes as numbers, and as bits.
        self._number, self._bits = self._holds.view(np.int8), self._holds.view(np.uint8)

    def left(self, tree: Tree, columns: Features) -> Places:
        """The leaves that no condition rules out, as bits, for every row; the first of them is the row's.

        The next call overwrites them.
        """
        self._left.fill(_ALL)
        for feature, threshold, above in tree.nodes:
            np.less_equal(columns[feature], threshold, out=self._holds)
            # -1, all bits, where the condition holds.
            np.negative(self._number, out=self._number)
            np.bitwise_or(self._bits, above, out=self._bits)
            np.bitwise_and(self._left, self._bits, out=self._left)
        return self._left


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
        nodes[at] = (int(node["split_feature"]), below(float(node["threshold"])), _ALL & ~on_left)
        visit(node["right_child"])

    visit(node)
    if len(values) > LEAVES:
        raise ValueError(f"a tree has {len(values)} leaves, and at most {LEAVES} are expected")
    return Tree(tuple(nodes), tuple(values))


def below(threshold: float) -> np.float32:
    """The largest float32 that is not above: a float32 is at most `threshold` if it is at most that."""
    nearest = np.float32(threshold)
    return nearest if float(nearest) <= threshold else np.nextafter(nearest, np.float32(-np.inf))
