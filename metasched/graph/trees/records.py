"""Tests and leaves in one table, in which the branches of a test are neighbours.

So a step of a walk is one addition: to the place of the branch `yes`, or to the one behind it. A leaf is a test that
never holds, whose branch `no` is itself: a walk that has come to it stays there. The records of a tree lie together,
level by level.
"""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.ir import Array
from metasched.graph.trees.comparisons import Comparisons
from metasched.support.data_classes import dataclass

# Records in front of all others: there is one before each leaf.
_UNUSED = 2


@dataclass(frozen=True, eq=False)
class Records:
    """The records of trees.

    Attributes:
        words: for each record, the place of its branch `yes`, times `2**column_bits`, and the column that it looks at.
        thresholds: for each record, what it compares with.
        leaves: for each record, the number of its leaf; 0 for a test.
        roots: for each tree, the place of its first record.
        column_bits: bits of a column in a word.
        place_bits: bits of a place.

    """

    words: Array
    thresholds: Array
    leaves: Array
    roots: Array
    column_bits: int
    place_bits: int


def lay_out_records(tests: Comparisons, column: Array, roots: Array) -> Records:
    """The records of some trees, by their first branches. `column` is the one of the input that each test looks at."""
    tree, level = _levels(tests, roots)
    own = np.flatnonzero(tree >= 0)
    order = own[np.lexsort((own, level[own], tree[own]))]
    sizes = 2 * (1 + np.bincount(tree[own], minlength=len(roots)))  # each tree's first record has nobody beside it
    begins = np.cumsum(sizes) - sizes + _UNUSED
    branches = np.zeros(len(tree), np.int64)  # of a test, where its branches are
    within = np.arange(len(order)) - np.searchsorted(tree[order], tree[order], side="left")
    branches[order] = begins[tree[order]] + 2 * (1 + within)
    count = int(sizes.sum()) + _UNUSED
    places = np.concatenate([begins, branches[own], branches[own] + 1])
    found = np.concatenate([roots, tests.yes[own], tests.no[own]])
    return _fill(tests, column, (places, found, branches), begins, count)


def _fill(tests: Comparisons, column: Array, where: tuple[Array, Array, Array], begins: Array, count: int) -> Records:
    """Records, of places at which the tests and leaves are that were found."""
    places, found, branches = where
    is_leaf = found < 0
    inner = found[~is_leaf]
    column_bits = max(1, int(column.max(initial=0)).bit_length())
    place_bits = max(1, (count - 1).bit_length())
    narrow = column_bits + place_bits < DType.I32.bits
    words = np.zeros(1 << place_bits, (DType.I32 if narrow else DType.I64).numpy)
    thresholds = np.full(len(words), np.nan, tests.threshold.dtype)
    leaves = np.zeros(len(words), np.int32)
    words[places[~is_leaf]] = branches[inner] << column_bits | column[inner]
    words[places[is_leaf]] = (places[is_leaf] - 1) << column_bits
    thresholds[places[~is_leaf]] = tests.threshold[inner]
    leaves[places[is_leaf]] = ~found[is_leaf]
    return Records(words, thresholds, leaves, begins, column_bits, place_bits)


def _levels(tests: Comparisons, roots: Array) -> tuple[Array, Array]:
    """For each test, its tree among these and its level in it; -1 where no tree comes to it."""
    tree, level = (np.full(len(tests.feature), -1, np.int64) for _ in range(2))
    trees, branch, depth = np.arange(len(roots)), roots, 0
    while branch.size:
        fresh = branch >= 0
        fresh[fresh] = tree[branch[fresh]] < 0
        branch, first = np.unique(branch[fresh], return_index=True)
        trees = trees[fresh][first]
        tree[branch], level[branch] = trees, depth
        branch, depth = np.stack([tests.yes[branch], tests.no[branch]], 1).reshape(-1), depth + 1
        trees = np.repeat(trees, 2)
    return tree, level
