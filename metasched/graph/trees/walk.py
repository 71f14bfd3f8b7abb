"""The programs that walk an ensemble.

Each level of all trees is a stage: from the records that the walks have come to, to the next ones. Trees of like depth
are one program, as a walk takes as many steps in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer
from metasched.graph.trees.comparisons import Comparisons, compare_at_most
from metasched.graph.trees.ensemble import Ensemble
from metasched.graph.trees.records import Records, lay_out_records
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# Programs of one ensemble, and what share of all steps another one has to save.
_MOST_GROUPS = 4
_WORTH_A_GROUP = 0.08
# Elements of a table of what each leaf adds to each target: in all, and for each that is not zero.
_MOST_LEAF_WEIGHTS = 1 << 28
_MOST_FOR_A_WEIGHT = 256
_FEW_LEAF_WEIGHTS = 1 << 20
# How many walks there may be for one that is needed, where every target has as many trees.
_MOST_PADDING = 1.25
# In place of a tree's one target, where its leaves say nothing, and where they say something of several.
_NONE, _SEVERAL = -1, -2


class Aggregate(Enum):
    """What becomes of what the leaves of all trees say of one target: a reduction, what joins two, and its identity."""

    SUM = ("sum", "{0} + {1}", 0.0)
    MIN = ("min", "min({0}, {1})", np.inf)
    MAX = ("max", "max({0}, {1})", -np.inf)

    def __init__(self, reducer: str, joined: str, identity: float) -> None:
        self.reducer = reducer
        self.joined = joined
        self.identity = identity


def aggregate_leaves(site: NodeSite, x: GraphValue, ensemble: Ensemble, aggregate: Aggregate) -> GraphValue:
    """What the leaves say that rows come to, for each row and target. Raises Unsupported for trees that are none."""
    rows, columns = x.shape
    ensemble.require_columns(columns)
    dtype = x.type.dtype
    tests = compare_at_most(ensemble, dtype.compute.numpy)
    depths = ensemble.depths(tests.steps)
    read, column = _columns(site, x, tests)
    total: GraphValue | None = None
    for group in _groups_by_depth(depths):
        walk = _Walk(site, read, tests, column, int(depths[group].max()))
        made = walk.aggregate(ensemble, group, aggregate)
        total = made if total is None else site.elementwise(aggregate.joined, total, made)
    assert total is not None
    return site.view(total, (rows, ensemble.targets))


def _columns(site: NodeSite, x: GraphValue, tests: Comparisons) -> tuple[GraphValue, Array]:
    """The input with the signs that tests look at, and the column of it that each looks at."""
    if not tests.negated.any():
        return x, tests.feature
    negative = site.elementwise("-{0}", x)
    if tests.negated.all():
        return negative, tests.feature
    rows, columns = x.shape
    text = f"A[i0, i1] if i1 < {columns} else B[i0, i1 - {columns}]"
    both = site.single([f"Y[i0, i1] = {text}"], ValueType(x.type.dtype, (rows, 2 * columns)), A=x, B=negative)
    return both, tests.feature + columns * tests.negated


def _groups_by_depth(depths: Array) -> list[Array]:
    """Trees in a few groups, in which walks take as many steps as in the deepest tree of each."""
    levels, counts = np.unique(depths, return_counts=True)
    ends = np.cumsum(counts)
    whole = int(ends[-1] * levels[-1])
    # For each number of groups, the steps that trees of the lowest levels take, and where the last group begins.
    best = [(ends * levels, np.zeros(len(levels), np.int64))]
    while len(best) < min(_MOST_GROUPS, len(levels)):
        before = np.concatenate([[0], best[-1][0][:-1]])
        first = np.concatenate([[0], ends[:-1]])
        steps = before[None, :] + (ends[:, None] - first[None, :]) * levels[:, None]
        steps = np.where(np.tri(len(levels), dtype=bool), steps, np.iinfo(np.int64).max)
        best.append((steps.min(1), steps.argmin(1)))
    groups = min(range(len(best)), key=lambda n: best[n][0][-1] + n * _WORTH_A_GROUP * whole)
    bounds, end = [len(levels)], len(levels)
    for n in range(groups, 0, -1):
        end = int(best[n][1][end - 1])
        bounds.append(end)
    bounds.append(0)
    edges = sorted(set(bounds))
    return [np.flatnonzero((depths >= levels[low]) & (depths <= levels[high - 1])) for low, high in pairwise(edges)]


@dataclass(frozen=True)
class _Walk:
    """Walks through some trees.

    Attributes:
        site: the node.
        x: what tests look at, (rows, columns).
        tests: the tests of all trees.
        column: the column of `x` that each test looks at.
        depth: how many steps the walks take.

    """

    site: NodeSite
    x: GraphValue
    tests: Comparisons
    column: Array
    depth: int

    def aggregate(self, ensemble: Ensemble, trees: Array, aggregate: Aggregate) -> GraphValue:
        """What the leaves of some trees say, (rows, targets), or (rows,) of one target."""
        single = _trees_of_targets(ensemble, trees)
        if single is None:
            table = _weights_of_leaves(ensemble, self.x.type.dtype, aggregate)
            return self._add_rows(ensemble.roots[trees], table, aggregate)
        of_leaf = _weight_of_leaf(ensemble, self.x.type.dtype, aggregate)
        # The leaf behind all others says nothing: it is the tree of a target that has fewer than another.
        roots = np.where(single < 0, ~ensemble.leaves, ensemble.roots[np.maximum(single, 0)])
        return self._add_elements(roots, of_leaf, aggregate)

    def _add_elements(self, roots: Array, of_leaf: Array, aggregate: Aggregate) -> GraphValue:
        """Targets with trees of their own: `roots` is (targets, trees), or (trees,) where there is one target."""
        records = lay_out_records(self.tests, self.column, roots.reshape(-1))
        over = ("c", "t")[-roots.ndim :]
        own = over[:-1]
        sums = ValueType(self.x.type.dtype.compute, (*roots.shape[:-1], self.x.shape[0]))
        stages, place = self._steps(records, over, roots.shape)
        stages += self._sums(own, sums, f"{aggregate.reducer}[t]({self._read('W', place, records)})")
        type_ = ValueType(self.x.type.dtype.compute, (self.x.shape[0], *roots.shape[:-1]))
        return self._program(stages, type_, records, roots.shape, W=self.site.constant(of_leaf[records.leaves]))

    def _add_rows(self, roots: Array, table: Array, aggregate: Aggregate) -> GraphValue:
        """Leaves that say something of several targets: a row of a table each."""
        records = lay_out_records(self.tests, self.column, roots)
        stages, place = self._steps(records, ("t",), roots.shape)
        leaf = f"{self._read('K', place, records)} & {len(table) - 1}"
        sums = ValueType(self.x.type.dtype.compute, (table.shape[1], self.x.shape[0]))
        stages += self._sums(("c",), sums, f"{aggregate.reducer}[t](W[{leaf}, c])")
        type_ = ValueType(self.x.type.dtype.compute, (self.x.shape[0], table.shape[1]))
        given = {"W": self.site.constant(table), "K": self.site.constant(records.leaves)}
        return self._program(stages, type_, records, roots.shape, **given)

    def _program(
        self, stages: Sequence[str], type_: ValueType, records: Records, shape: tuple[int, ...], **given: GraphValue
    ) -> GraphValue:
        constant = self.site.constant
        tables = {"G": constant(records.words), "V": constant(records.thresholds)}
        roots = constant(records.roots.reshape(shape).astype(records.words.dtype))
        return self.site.single(stages, type_, X=self.x, P=roots, **tables, **given)

    def _steps(self, records: Records, over: Sequence[str], shape: tuple[int, ...]) -> tuple[list[str], str]:
        """The stages that take walks to their leaves, by way of `P1`, `P2`, ..., and the last place of each."""
        rows, columns = self.x.shape
        type_ = ValueType(DType.I32 if records.words.dtype == np.int32 else DType.I64, (*shape, rows))
        stages, place = list[str](), at("P", over)
        for level in range(1, self.depth + 1):
            word, threshold = self._read("G", place, records), self._read("V", place, records)
            column = f"min({word} & {(1 << records.column_bits) - 1}, {columns - 1})"
            holds = f"{self._wide(f'X[n, {column}]')} <= {threshold}"
            name = f"P{level}"
            stages.append(declare_buffer(name, type_))
            place = at(name, (*over, "n"))
            stages.append(f"{place} = ({word} >> {records.column_bits}) + (0 if {holds} else 1)")
        return stages, place

    def _sums(self, over: Sequence[str], type_: ValueType, value: str) -> list[str]:
        """The stages of sums over trees: rows are neighbours, in which vectors go, until all trees are added up."""
        if not over:
            return [f"Y[n] = {value}"]
        return [declare_buffer("S", type_), f"{at('S', (*over, 'n'))} = {value}", f"{at('Y', ('n', *over))} = S[c, n]"]

    def _wide(self, element: str) -> str:
        dtype = self.x.type.dtype
        return element if dtype.compute is dtype else f"{dtype.compute}({element})"

    def _read(self, table: str, place: str, records: Records) -> str:
        return f"{table}[{place} & {(1 << records.place_bits) - 1}]"


def _trees_of_targets(ensemble: Ensemble, trees: Array) -> Array | None:
    """The trees of each target, (targets, most), -1 where one has fewer, or (trees,) for one target.

    None where leaves of a tree say something of several targets, or targets have too different numbers of trees.
    """
    if ensemble.targets == 1:
        return trees
    target = _target_of_trees(ensemble)[trees]
    if (target == _SEVERAL).any():
        return None
    own = trees[target >= 0]
    counts = np.bincount(target[target >= 0], minlength=ensemble.targets)
    most = int(counts.max())
    if not most or ensemble.targets * most > _MOST_PADDING * len(trees):
        return None
    order = np.argsort(target[target >= 0], kind="stable")
    out = np.full((ensemble.targets, most), -1)
    begins = np.cumsum(counts) - counts
    sorted_target = target[target >= 0][order]
    out[sorted_target, np.arange(len(own)) - begins[sorted_target]] = own[order]
    return out


def _target_of_trees(ensemble: Ensemble) -> Array:
    """For each tree, the one target that its leaves say something of; `_NONE`, or `_SEVERAL`."""
    of_leaf = _tree_of_leaves(ensemble)
    tree, target = of_leaf[ensemble.weights.leaf], ensemble.weights.target
    count = len(ensemble.roots)
    low, high = np.full(count, ensemble.targets), np.full(count, _NONE)
    known = tree >= 0
    np.minimum.at(low, tree[known], target[known])
    np.maximum.at(high, tree[known], target[known])
    return np.where(high == _NONE, _NONE, np.where(low == high, high, _SEVERAL))


def _tree_of_leaves(ensemble: Ensemble) -> Array:
    """For each leaf, a tree that comes to it; -1 where none does."""
    out = np.full(ensemble.leaves, -1)
    tree, branch = np.arange(len(ensemble.roots)), ensemble.roots
    while branch.size:
        out[~branch[branch < 0]] = tree[branch < 0]
        tree, branch = tree[branch >= 0], branch[branch >= 0]
        tree = np.repeat(tree, 2)
        branch = np.stack([ensemble.tests.yes[branch], ensemble.tests.no[branch]], 1).reshape(-1)
    return out


def _weight_of_leaf(ensemble: Ensemble, dtype: DType, aggregate: Aggregate) -> Array:
    """What each leaf says of its only target, and behind them what one says that has none."""
    out = np.full(ensemble.leaves + 1, aggregate.identity, dtype.compute.numpy)
    _put(out, ensemble.weights.leaf, ensemble.weights.weight, aggregate)
    return out


def _weights_of_leaves(ensemble: Ensemble, dtype: DType, aggregate: Aggregate) -> Array:
    """What each leaf says of each target, with as many rows as a power of two."""
    rows = 1 << max(ensemble.leaves - 1, 1).bit_length()
    most = max(_FEW_LEAF_WEIGHTS, _MOST_FOR_A_WEIGHT * len(ensemble.weights.leaf))
    if rows * ensemble.targets > min(most, _MOST_LEAF_WEIGHTS):
        raise Unsupported(
            f"{ensemble.leaves} leaves add to {ensemble.targets} targets, {len(ensemble.weights.leaf)} numbers in all: "
            "a table of what each adds to each is too large"
        )
    out = np.full((rows, ensemble.targets), aggregate.identity, dtype.compute.numpy)
    _put(out, (ensemble.weights.leaf, ensemble.weights.target), ensemble.weights.weight, aggregate)
    return out


def _put(out: Array, where: Array | tuple[Array, Array], weights: Array, aggregate: Aggregate) -> None:
    own = {Aggregate.SUM: np.add, Aggregate.MIN: np.minimum, Aggregate.MAX: np.maximum}[aggregate]
    own.at(out, where, weights.astype(out.dtype))
