"""Linear models: a sum of columns with a coefficient each, for each target or class."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.class_labels import ClassLabels, second_class_scores
from metasched.graph.node_helpers.feature_rows import float_rows
from metasched.graph.node_helpers.scores import POST_TRANSFORMS, add_numbers, transform_scores
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue | None, ...]


@node_type("ai.onnx.ml:LinearRegressor")
def linear_regressor(site: NodeSite) -> Results:
    """For each target a sum of products, and what is done to it last."""
    targets = int(site.attribute("targets", 1))
    transform = site.require_one_of("post_transform", "NONE", POST_TRANSFORMS)
    scores = _sums_of_products(site, float_rows(site), targets)
    if targets == 1 and transform != "PROBIT":  # as runtimes have it: of one number there are no shares
        transform = "NONE"
    return (site.cast(transform_scores(site, scores, transform), DType.F32),)


@node_type("ai.onnx.ml:LinearClassifier")
def linear_classifier(site: NodeSite) -> Results:
    """The class with the largest of some sums, and these; of two classes there may be one sum, of the second."""
    labels = ClassLabels.of(site, "classlabels_ints", "classlabels_strings")
    x = float_rows(site)
    classes = max(len(site.attribute("intercepts", ())), len(site.require_attribute("coefficients")) // x.shape[1])
    transform = site.require_one_of("post_transform", "NONE", POST_TRANSFORMS)
    scores = _sums_of_products(site, x, classes)
    if classes > 1:
        label = labels.of_largest(site, scores)
        return (label, site.cast(transform_scores(site, scores, transform), DType.F32))
    label = labels.of_one_score(site, scores, 0.0)
    if labels.count == 2:
        made = second_class_scores(site, scores, transform, is_share=False)
    else:
        made = transform_scores(site, scores, transform)
    return (label, site.cast(made, DType.F32))


def _sums_of_products(site: NodeSite, x: GraphValue, targets: int) -> GraphValue:
    """Rows times coefficients, (rows, targets), and a number more for each target."""
    dtype = x.type.dtype
    given = np.array(site.require_attribute("coefficients"), np.float32)
    if targets < 1 or given.size != targets * x.shape[1]:
        raise Unsupported(f"it has {given.size} coefficients for {targets} sums of {x.shape[1]} columns")
    weights = np.ascontiguousarray(given.reshape(targets, -1).T.astype(dtype.numpy))
    scores = call_node(site, "MatMul", x, site.constant(weights, dtype))
    more = np.array(site.attribute("intercepts", ()), np.float32)
    if more.size not in (0, 1, targets):
        raise Unsupported(f"it has {more.size} intercepts for {targets} sums")
    return add_numbers(site, scores, more) if more.size else scores
