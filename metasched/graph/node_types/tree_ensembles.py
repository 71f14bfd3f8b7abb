"""Ensembles of decision trees: forests, boosted trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.class_labels import ClassLabels, second_class_scores
from metasched.graph.node_helpers.feature_rows import float_rows
from metasched.graph.node_helpers.scores import POST_TRANSFORMS, add_base, transform_scores
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.trees.ensemble import Ensemble
from metasched.graph.trees.flat_attributes import WeightNames, floats_of, read_flat_ensemble
from metasched.graph.trees.split_attributes import read_split_ensemble
from metasched.graph.trees.walk import Aggregate, aggregate_leaves

Results = tuple[GraphValue | None, ...]

_AVERAGE = "AVERAGE"
# In the order in which `TreeEnsemble` numbers them.
_AGGREGATES = (_AVERAGE, "SUM", "MIN", "MAX")
_TARGET_WEIGHTS = WeightNames("target_treeids", "target_nodeids", "target_ids", "target_weights")
_CLASS_WEIGHTS = WeightNames("class_treeids", "class_nodeids", "class_ids", "class_weights")


@node_type("ai.onnx.ml:TreeEnsembleRegressor")
def tree_ensemble_regressor(site: NodeSite) -> Results:
    """What the leaves that a row comes to add to each target."""
    targets = int(site.attribute("n_targets", 1))
    ensemble = read_flat_ensemble(site, _TARGET_WEIGHTS, targets)
    how = site.require_one_of("aggregate_function", "SUM", _AGGREGATES)
    transform = site.require_one_of("post_transform", "NONE", POST_TRANSFORMS)
    scores = add_base(site, _aggregate(site, float_rows(site), ensemble, how), floats_of(site, "base_values"))
    if targets == 1 and transform != "PROBIT":  # as runtimes have it: of one number there are no shares
        transform = "NONE"
    return (site.cast(transform_scores(site, scores, transform), DType.F32),)


@node_type("ai.onnx.ml:TreeEnsemble")
def tree_ensemble(site: NodeSite) -> Results:
    """What the leaves that a row comes to add to each target; leaves are listed apart."""
    x = site.operand(0)
    numbers = ((_AGGREGATES, "aggregate_function", 1), (POST_TRANSFORMS, "post_transform", 0))
    how, transform = (_by_number(site, *one) for one in numbers)
    ensemble = read_split_ensemble(site)
    scores = _aggregate(site, float_rows(site), ensemble, how)
    return (site.cast(transform_scores(site, scores, transform), x.type.dtype),)


def _by_number(site: NodeSite, known: tuple[str, ...], name: str, default: int) -> str:
    number = int(site.attribute(name, default))
    if not 0 <= number < len(known):
        raise Unsupported(f"`{name}` is {number}, and those from 0 to {len(known) - 1} are known")
    return known[number]


@node_type("ai.onnx.ml:TreeEnsembleClassifier")
def tree_ensemble_classifier(site: NodeSite) -> Results:
    """The class that most of the leaves say, and how much they say of each.

    Where leaves say something of one class alone, and there are two, the other one has what is left.
    """
    labels = ClassLabels.of(site, "classlabels_int64s", "classlabels_strings")
    ensemble = read_flat_ensemble(site, _CLASS_WEIGHTS, labels.count)
    transform = site.require_one_of("post_transform", "NONE", POST_TRANSFORMS)
    positive = not (ensemble.weights.weight < 0).any()
    scores, label = _class_scores(site, labels, ensemble, 0.5 if positive else 0.0)
    if labels.count == 2 and scores.shape[1] == 1:
        return (label, _as_f32(site, second_class_scores(site, scores, transform, is_share=positive)))
    if labels.count == 1 and transform != "PROBIT":  # as runtimes have it: of one number there are no shares
        transform = "NONE"
    return (label, _as_f32(site, transform_scores(site, scores, transform)))


def _class_scores(
    site: NodeSite, labels: ClassLabels, ensemble: Ensemble, threshold: float
) -> tuple[GraphValue, GraphValue | None]:
    """Scores, (rows, classes), or (rows, 1) where leaves say something of the first of two classes alone; and labels.

    So a model with one score says that of its second class, which has the label where that is more than a number.
    """
    x, base = float_rows(site), floats_of(site, "base_values")
    named = np.unique(ensemble.weights.target).tolist()
    if labels.count == 2 and named == [0]:
        ensemble, base = replace(ensemble, targets=1), base[:1]
    scores = add_base(site, _aggregate(site, x, ensemble, "SUM"), base)
    if labels.count > 2 or len(named) > 1:
        return scores, labels.of_largest(site, scores)
    return scores, labels.of_one_score(site, scores, threshold)


def _as_f32(site: NodeSite, scores: GraphValue) -> GraphValue:
    return site.cast(scores, DType.F32)


def _aggregate(site: NodeSite, x: GraphValue, ensemble: Ensemble, how: str) -> GraphValue:
    if how in ("SUM", _AVERAGE):
        total = aggregate_leaves(site, x, ensemble, Aggregate.SUM)
        return total if how == "SUM" else site.elementwise(f"{{0}} / {len(ensemble.roots)}.0", total)
    found = aggregate_leaves(site, x, ensemble, Aggregate[how])
    # Of a target of which no leaf says anything there is nothing.
    return site.elementwise("0.0 if abs({0}) == inf else {0}", found) if _may_lack(ensemble) else found


def _may_lack(ensemble: Ensemble) -> bool:
    """Whether a row may come to leaves none of which says anything of a target."""
    said: Array = np.bincount(ensemble.weights.leaf, minlength=ensemble.leaves)
    return bool((said < ensemble.targets).any())
