"""Support vector machines: sums of how like rows are to vectors that were kept of the training."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.loops.pairwise_shares import shares_of_classes
from metasched.graph.node_helpers.class_labels import ClassLabels, second_class_scores
from metasched.graph.node_helpers.feature_rows import float_rows
from metasched.graph.node_helpers.scores import POST_TRANSFORMS, add_numbers, transform_scores
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import real
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
# Of a power that is written as a product.
_MOST_FACTORS = 4
# Elements of the table of what each vector adds to each comparison of two classes.
_MOST_WEIGHTS = 1 << 28


@node_type("ai.onnx.ml:SVMRegressor")
def svm_regressor(site: NodeSite) -> Results:
    """A sum over vectors of how like each is to a row; or of one class, whether a row is of it: 1 or -1."""
    x, supports = float_rows(site), int(site.attribute("n_supports", 0))
    transform = site.require_one_of("post_transform", "NONE", POST_TRANSFORMS)
    coefficients = _floats(site, "coefficients")
    if supports > 0:
        likeness = _likeness(site, x, _vectors(site, supports, x.shape[1]))
        scores = _weigh(site, likeness, coefficients.reshape(1, -1))
    else:
        scores = _weigh(site, x, coefficients.reshape(1, -1))
    scores = add_numbers(site, scores, _floats(site, "rho")[:1])
    if site.flag("one_class"):
        scores = site.elementwise("1.0 if {0} > 0.0 else -1.0", scores)
    if transform == "PROBIT":
        scores = transform_scores(site, scores, transform)
    return (site.cast(scores, DType.F32),)


@node_type("ai.onnx.ml:SVMClassifier")
def svm_classifier(site: NodeSite) -> Results:
    """The class that most of the comparisons of two classes choose, and what these come to.

    Without vectors there is a sum of columns for each class.
    """
    labels = ClassLabels.of(site, "classlabels_ints", "classlabels_strings")
    transform = site.require_one_of("post_transform", "NONE", POST_TRANSFORMS)
    x, per_class = float_rows(site), [int(n) for n in site.attribute("vectors_per_class", ())]
    if sum(per_class):
        scores = _compare_classes(site, x, per_class)
        label = labels.of_largest(site, _votes(site, scores, len(per_class)))
        if len(site.attribute("prob_a", ())):
            lines = _floats(site, "prob_a"), _floats(site, "prob_b")
            scores = shares_of_classes(site, scores, len(per_class), lines)
    else:
        scores = _weigh(site, x, _floats(site, "coefficients").reshape(max(labels.count, 1), -1))
        scores = add_numbers(site, scores, _floats(site, "rho")[:1])
        label = labels.of_one_score(site, scores, 0.0) if labels.count == 1 else labels.of_largest(site, scores)
    if scores.shape[1] == 1 and labels.count == 2:
        made = second_class_scores(site, scores, transform, is_share=False)
    else:
        made = transform_scores(site, scores, transform)
    return (label, site.cast(made, DType.F32))


def _compare_classes(site: NodeSite, x: GraphValue, per_class: list[int]) -> GraphValue:
    """What each comparison of two classes comes to, (rows, comparisons): more than zero for the first of them."""
    classes, count = len(per_class), sum(per_class)
    coefficients = _floats(site, "coefficients")
    if min(per_class) < 0 or classes < 2 or coefficients.size != (classes - 1) * count:
        raise Unsupported(f"it has {coefficients.size} coefficients for {count} vectors of {classes} classes")
    rho = _floats(site, "rho")
    if rho.size != classes * (classes - 1) // 2 or rho.size * count > _MOST_WEIGHTS:
        raise Unsupported(f"it has {rho.size} `rho` for the comparisons of {classes} classes by {count} vectors")
    own = coefficients.reshape(classes - 1, count)
    begins = np.cumsum([0, *per_class])
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((len(pairs), count), np.float32)
    for n, (i, j) in enumerate(pairs):
        for one, other in ((i, j - 1), (j, i)):
            part = slice(begins[one], begins[one + 1])
            weights[n, part] = own[other, part]
    scores = _weigh(site, _likeness(site, x, _vectors(site, count, x.shape[1])), weights)
    return add_numbers(site, scores, rho)


def _votes(site: NodeSite, scores: GraphValue, classes: int) -> GraphValue:
    """How many comparisons choose each class, (rows, classes)."""
    pairs = np.array(list(combinations(range(classes), 2)))
    first, second = (np.eye(classes, dtype=np.float32)[pairs[:, side]] for side in range(2))
    text = f"Y[n, c] = sum[p < {len(pairs)}](F[p, c] if A[n, p] > 0.0 else S[p, c])"
    type_ = ValueType(DType.F32, (scores.shape[0], classes))
    return site.single([text], type_, A=scores, F=site.constant(first), S=site.constant(second))


def _likeness(site: NodeSite, x: GraphValue, vectors: Array) -> GraphValue:
    """How like each row is to each vector, (rows, vectors)."""
    kernel = site.require_one_of("kernel_type", "LINEAR", _KERNELS)
    params = _floats(site, "kernel_params")
    gamma, more, degree = (float(n) for n in [*params, 0, 0, 0][:3])
    dtype = x.type.dtype
    if kernel == "RBF":
        text = f"D[n, s] = sum[k < {x.shape[1]}]((X[n, k] - V[s, k]) * (X[n, k] - V[s, k]))"
        type_ = ValueType(dtype, (x.shape[0], len(vectors)))
        stages = [f"D: {type_}", text, f"Y[n, s] = exp({real(-gamma)} * D[n, s])"]
        return site.single(stages, type_, X=x, V=site.constant(vectors.astype(dtype.numpy), dtype))
    products = call_node(site, "MatMul", x, site.constant(vectors.T.astype(dtype.numpy), dtype))
    if kernel == "LINEAR":
        return products
    inner = f"{real(gamma)} * {{0}} + {real(more)}"
    if kernel == "SIGMOID":
        return site.elementwise(f"tanh({inner})", products)
    return _power(site, site.elementwise(inner, products), degree)


def _power(site: NodeSite, base: GraphValue, degree: float) -> GraphValue:
    if degree != int(degree) or not 0 < degree <= _MOST_FACTORS:
        return site.elementwise(f"pow({{0}}, {real(degree)})", base)
    return site.elementwise(" * ".join(["{0}"] * int(degree)), base)


def _weigh(site: NodeSite, x: GraphValue, weights: Array) -> GraphValue:
    """Rows times weights, (rows, sums), of which there are so many for each."""
    if weights.shape[1] != x.shape[1]:
        raise Unsupported(f"it has {weights.size} coefficients for {len(weights)} sums of {x.shape[1]} numbers")
    dtype = x.type.dtype
    return call_node(site, "MatMul", x, site.constant(weights.T.astype(dtype.numpy), dtype))


def _vectors(site: NodeSite, count: int, columns: int) -> Array:
    vectors = _floats(site, "support_vectors")
    if vectors.size != count * columns:
        raise Unsupported(f"it has {vectors.size} numbers of {count} vectors, and the input has {columns} columns")
    return vectors.reshape(count, columns)


def _floats(site: NodeSite, name: str) -> Array:
    return np.array(site.attribute(name, ()), np.float32)
