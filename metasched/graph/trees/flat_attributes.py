"""Trees as the attributes of a classifier and a regressor list them: a row for each node, which has two numbers, that
of its tree and its own in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.site import NodeSite
from metasched.graph.trees.ensemble import Ensemble, LeafWeights, Mode, Tests
from metasched.support.data_classes import dataclass

_LEAF = "LEAF"
# Targets of which no leaf says anything.
_MOST_TARGETS = 1 << 16
_MISSING = "nodes_missing_value_tracks_true"
_MODES = {_LEAF: -1, **{mode.value: mode.number for mode in Mode if mode is not Mode.MEMBER}}


@dataclass(frozen=True)
class WeightNames:
    """What the attributes are called that say what leaves add."""

    tree: str
    node: str
    target: str
    weight: str


def read_flat_ensemble(site: NodeSite, names: WeightNames, targets: int) -> Ensemble:
    """The trees of a node. Raises Unsupported for what are none."""
    node_trees, node_numbers = integer_list(site, "nodes_treeids"), integer_list(site, "nodes_nodeids")
    rows = _Rows(node_trees, node_numbers)
    kinds = _modes(site, len(rows))
    is_leaf = kinds < 0
    tests, leaves = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf)
    branch = np.empty(len(rows), np.int64)  # of a row, what leads to it
    branch[tests], branch[leaves] = np.arange(len(tests)), ~np.arange(len(leaves))
    missing = integer_list(site, _MISSING)
    return Ensemble(
        Tests(
            _of_rows(site, "nodes_featureids", rows)[tests],
            _thresholds(site, len(rows))[tests],
            kinds[tests],
            np.zeros(len(tests), bool) if not missing.size else _of_rows(site, _MISSING, rows)[tests] > 0,
            branch[rows.find(node_trees[tests], _of_rows(site, "nodes_truenodeids", rows)[tests])],
            branch[rows.find(node_trees[tests], _of_rows(site, "nodes_falsenodeids", rows)[tests])],
        ),
        {},
        branch[rows.first_of_trees],
        len(leaves),
        _weights(site, names, rows, branch, targets),
        targets,
    )


class _Rows:
    """The rows of nodes by their two numbers."""

    def __init__(self, trees: Array, numbers: Array) -> None:
        if not len(trees) or len(trees) != len(numbers):
            raise Unsupported(f"it has {len(trees)} `nodes_treeids`, and {len(numbers)} `nodes_nodeids`")
        self._trees, firsts, tree = np.unique(trees, return_index=True, return_inverse=True)
        self._numbers, number = np.unique(numbers, return_inverse=True)
        self.first_of_trees: Array = np.sort(firsts)
        keys = tree * len(self._numbers) + number
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        again = np.flatnonzero(self._keys[1:] == self._keys[:-1])
        if again.size:
            row = self._order[again[0]]
            raise Unsupported(f"the node {numbers[row]} of the tree {trees[row]} is there twice")

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, trees: Array, numbers: Array) -> Array:
        """The rows of nodes. Raises Unsupported for one that there is not."""
        tree, number = (_place(known, given) for known, given in ((self._trees, trees), (self._numbers, numbers)))
        keys = tree * len(self._numbers) + number
        places = np.minimum(np.searchsorted(self._keys, keys), len(self) - 1)
        bad = np.flatnonzero((self._keys[places] != keys) | (tree < 0) | (number < 0))
        if bad.size:
            raise Unsupported(f"there is no node {numbers[bad[0]]} in the tree {trees[bad[0]]}")
        return self._order[places]


def _place(known: Array, given: Array) -> Array:
    """The places of numbers among those that are known in order; -1 of others."""
    places = np.minimum(np.searchsorted(known, given), len(known) - 1)
    return np.where(known[places] == given, places, -1)


def _modes(site: NodeSite, count: int) -> Array:
    given: Sequence[bytes] = site.attribute("nodes_modes", ())
    if len(given) != count:
        raise Unsupported(f"it has {count} nodes, and {len(given)} `nodes_modes`")
    found, inverse = np.unique(np.array(given, dtype=np.bytes_), return_inverse=True)
    names = [name.decode("utf-8", "replace") for name in found.tolist()]
    unknown = [name for name in names if name not in _MODES]
    if unknown:
        raise Unsupported(f'a mode of its nodes is "{unknown[0]}", and {", ".join(_MODES)} are known')
    return np.array([_MODES[name] for name in names], np.int8)[inverse]


def _thresholds(site: NodeSite, count: int) -> Array:
    values = floats_of(site, "nodes_values")
    if len(values) != count:
        raise Unsupported(f"it has {count} nodes, and {len(values)} `nodes_values`")
    return values


def _of_rows(site: NodeSite, name: str, rows: _Rows) -> Array:
    values = integer_list(site, name)
    if len(values) != len(rows):
        raise Unsupported(f"it has {len(rows)} nodes, and {len(values)} `{name}`")
    return values


def _weights(site: NodeSite, names: WeightNames, rows: _Rows, branch: Array, targets: int) -> LeafWeights:
    trees, nodes, target = (integer_list(site, name) for name in (names.tree, names.node, names.target))
    weight = floats_of(site, names.weight)
    if len({len(trees), len(nodes), len(target), len(weight)}) > 1:
        raise Unsupported(f"it has {len(weight)} `{names.weight}`, and not as many `{names.node}` or `{names.target}`")
    leaf = ~branch[rows.find(trees, nodes)]
    own = leaf >= 0  # what is no leaf adds nothing
    require_targets(target[own], targets)
    return LeafWeights(leaf[own], target[own], weight[own])


def require_targets(target: Array, targets: int) -> None:
    """Raise Unsupported for a target that is not there, and for more of them than leaves can say anything of."""
    if not 1 <= targets <= _MOST_TARGETS + len(target):
        raise Unsupported(f"it has {targets} targets, and {len(target)} weights of leaves")
    bad = np.flatnonzero((target < 0) | (target >= targets))
    if bad.size:
        raise Unsupported(f"a leaf adds to the target {target[bad[0]]}, and there are {targets} of them")


def integer_list(site: NodeSite, name: str) -> Array:
    """An attribute that is a list of whole numbers; an empty one where it is left out."""
    return np.array(site.attribute(name, ()), np.int64)


def floats_of(site: NodeSite, name: str) -> Array:
    """An attribute that is a list of f32, or a tensor of another type; an empty one where both are left out."""
    given = site.attribute(f"{name}_as_tensor")
    if given is not None and given.size:
        return np.asarray(given).reshape(-1)
    return np.array(site.attribute(name, ()), np.float32)
