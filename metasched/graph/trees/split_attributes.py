"""Trees as `TreeEnsemble` lists them: tests and leaves apart, and a branch is a row of either."""

from __future__ import annotations

import numpy as np

from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.site import NodeSite
from metasched.graph.trees.ensemble import Ensemble, LeafWeights, Mode, Tests
from metasched.graph.trees.flat_attributes import integer_list, require_targets


def read_split_ensemble(site: NodeSite) -> Ensemble:
    """The trees of a node. Raises Unsupported for what are none."""
    leaf_targets = integer_list(site, "leaf_targetids")
    leaf_weights = np.asarray(site.require_attribute("leaf_weights")).reshape(-1)
    leaves, targets = len(leaf_targets), int(site.require_attribute("n_targets"))
    if len(leaf_weights) != leaves or not leaves:
        raise Unsupported(f"it has {leaves} `leaf_targetids`, and {len(leaf_weights)} `leaf_weights`")
    require_targets(leaf_targets, targets)
    tests = _tests(site, leaves)
    return Ensemble(
        tests,
        _members(site, tests),
        _roots(site, tests),
        leaves,
        LeafWeights(np.arange(leaves), leaf_targets, leaf_weights),
        targets,
    )


def _tests(site: NodeSite, leaves: int) -> Tests:
    modes = np.asarray(site.require_attribute("nodes_modes")).reshape(-1).astype(np.int64)
    count = len(modes)
    bad = np.flatnonzero((modes < 0) | (modes >= len(Mode)))
    if bad.size:
        raise Unsupported(f"the mode of a node is {modes[bad[0]]}, and those from 0 to {len(Mode) - 1} are known")
    missing = integer_list(site, "nodes_missing_value_tracks_true")
    return Tests(
        _require_rows("nodes_featureids", integer_list(site, "nodes_featureids"), count),
        _require_rows("nodes_splits", np.asarray(site.require_attribute("nodes_splits")).reshape(-1), count),
        modes,
        _require_rows("nodes_missing_value_tracks_true", missing, count) > 0 if missing.size else np.zeros(count, bool),
        *(_branches(site, which, count, leaves) for which in ("true", "false")),
    )


def _branches(site: NodeSite, which: str, count: int, leaves: int) -> Array:
    names = f"nodes_{which}nodeids", f"nodes_{which}leafs"
    to, is_leaf = (_require_rows(name, integer_list(site, name), count) for name in names)
    bad = np.flatnonzero((to < 0) | (to >= np.where(is_leaf > 0, leaves, count)))
    if bad.size:
        what = "leaf" if is_leaf[bad[0]] > 0 else "node"
        raise Unsupported(f"the node {bad[0]} goes to the {what} {to[bad[0]]}, which is not there")
    return np.where(is_leaf > 0, ~to, to)


def _require_rows(name: str, values: Array, count: int) -> Array:
    if len(values) != count:
        raise Unsupported(f"it has {count} nodes, and {len(values)} `{name}`")
    return values


def _roots(site: NodeSite, tests: Tests) -> Array:
    """The first branch of each tree: one whose branches are one leaf is that leaf."""
    roots = integer_list(site, "tree_roots")
    bad = np.flatnonzero((roots < 0) | (roots >= len(tests)))
    if bad.size or not roots.size:
        raise Unsupported(f"a tree begins at the node {roots[bad[0]]}, which is not there" if bad.size else "no tree")
    is_leaf = (tests.yes[roots] < 0) & (tests.yes[roots] == tests.no[roots])
    return np.where(is_leaf, tests.yes[roots], roots)


def _members(site: NodeSite, tests: Tests) -> dict[int, Array]:
    """The elements of each test of a set, which are listed one set after another, in the order of the tests, with NaN
    behind each.
    """
    wanted = np.flatnonzero(tests.mode == Mode.MEMBER.number)
    given = site.attribute("membership_values")
    values = np.zeros(0) if given is None else np.asarray(given).reshape(-1)
    ends = np.flatnonzero(np.isnan(values))
    if len(ends) != len(wanted):
        raise Unsupported(f"{len(wanted)} nodes ask for members of a set, and `membership_values` has {len(ends)} sets")
    begins = [0, *(ends + 1).tolist()]
    return {int(test): values[begins[n] : end] for n, (test, end) in enumerate(zip(wanted, ends, strict=True))}
