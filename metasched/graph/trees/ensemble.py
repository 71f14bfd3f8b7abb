"""Trees as arrays: tests, their branches, and what leaves add to which target."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.support.data_classes import dataclass

# Levels are stages of a program.
_DEEPEST = 512


class Mode(StrEnum):
    """What a test asks of an element and its threshold, in the order in which `TreeEnsemble` numbers them."""

    LEQ = "BRANCH_LEQ"
    LT = "BRANCH_LT"
    GTE = "BRANCH_GTE"
    GT = "BRANCH_GT"
    EQ = "BRANCH_EQ"
    NEQ = "BRANCH_NEQ"
    MEMBER = "BRANCH_MEMBER"

    @property
    def number(self) -> int:
        """Its place in this order."""
        return list(Mode).index(self)


@dataclass(frozen=True, eq=False)
class Tests:
    """The tests of all trees. A branch is the number of a test, or `~leaf`.

    Attributes:
        feature: for each test, the column that it looks at.
        threshold: what it compares with.
        mode: the number of its mode.
        missing: whether NaN takes the branch `yes`.
        yes: the branch of an element for which it holds.
        no: the other branch.

    """

    feature: Array
    threshold: Array
    mode: Array
    missing: Array
    yes: Array
    no: Array

    def __len__(self) -> int:
        return len(self.feature)


@dataclass(frozen=True, eq=False)
class LeafWeights:
    """What leaves add: a row for each pair of a leaf and a target.

    Attributes:
        leaf: the number of the leaf.
        target: the number of the target.
        weight: how much.

    """

    leaf: Array
    target: Array
    weight: Array


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees.

    Attributes:
        tests: their tests.
        members: for each test of the mode MEMBER, the elements for which it holds.
        roots: for each tree, its first test, or `~leaf`.
        leaves: how many leaves there are.
        weights: what they add.
        targets: how many targets there are.

    """

    tests: Tests
    members: dict[int, Array]
    roots: Array
    leaves: int
    weights: LeafWeights
    targets: int

    def require_columns(self, columns: int) -> None:
        """Raise Unsupported for a test of a column that is not there."""
        bad = np.flatnonzero((self.tests.feature < 0) | (self.tests.feature >= columns))
        if bad.size:
            raise Unsupported(
                f"a test is of the column {self.tests.feature[bad[0]]}, and the input has {columns} of them"
            )

    def depths(self, steps: Array) -> Array:
        """For each tree, how many steps there are at most on the way to a leaf, where a test takes so many.

        Raises Unsupported where branches meet or go round, and where a tree is too deep.
        """
        deepest = np.zeros(len(self.roots), np.int64)
        reached = np.zeros(len(self.tests), bool)
        tree, branch, before = np.arange(len(self.roots)), self.roots, deepest
        for _ in range(_DEEPEST):
            inner = branch >= 0
            tree, branch, before = tree[inner], branch[inner], before[inner]
            if not branch.size:
                break
            _reach(reached, branch)
            before = before + steps[branch]
            np.maximum.at(deepest, tree, before)
            branch = np.stack([self.tests.yes[branch], self.tests.no[branch]], 1).reshape(-1)
            tree, before = np.repeat(tree, 2), np.repeat(before, 2)
        if branch.size or deepest.max(initial=0) > _DEEPEST:
            raise Unsupported(f"a tree has more than {_DEEPEST} levels")
        return deepest


def _reach(reached: Array, found: Array) -> None:
    """Mark the tests that branches lead to. Raises Unsupported where another one leads there."""
    numbers, times = np.unique(found, return_counts=True)
    again = numbers[(times > 1) | reached[numbers]]
    if again.size:
        raise Unsupported(f"two branches lead to the test in row {again[0]}, and in a tree one does")
    reached[numbers] = True
