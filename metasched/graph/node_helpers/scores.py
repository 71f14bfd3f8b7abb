"""What becomes of the sums of a model: base values, and what is done to them last."""

from __future__ import annotations

import numpy as np

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, real
from metasched.graph.value_type import ValueType

POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
# What counts as zero for SOFTMAX_ZERO.
_ZERO = 1e-7
# Of the approximation of the inverse of erf that runtimes have (Winitzki 2008).
_A = 0.147


def add_base(site: NodeSite, scores: GraphValue, base: Array) -> GraphValue:
    """Scores, (rows, targets), with a number more for each target, if there are such numbers."""
    if not base.size:
        return scores
    if base.size not in (1, scores.shape[1]):
        raise Unsupported(f"it has {base.size} base values, and {scores.shape[1]} targets")
    return add_numbers(site, scores, base)


def add_numbers(site: NodeSite, scores: GraphValue, base: Array) -> GraphValue:
    """Scores, (rows, targets), with a number more for each target, or the same for all."""
    if not base.any():
        return scores
    dtype = scores.type.dtype
    return site.elementwise("{0} + {1}", scores, site.constant(base.astype(dtype.numpy).reshape(1, -1), dtype))


def transform_scores(site: NodeSite, scores: GraphValue, transform: str) -> GraphValue:
    """Scores, (rows, targets), after what a node does last."""
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return site.elementwise("sigmoid({0})", scores)
    if transform == "PROBIT":
        return _probit(site, scores)
    return _softmax(site, scores, keeps_zeros=transform == "SOFTMAX_ZERO")


def _probit(site: NodeSite, scores: GraphValue) -> GraphValue:
    x = "(2.0 * {0} - 1.0)"
    log = f"log((1.0 - {x}) * (1.0 + {x}))"
    half = site.elementwise(log, scores)
    v = f"({real(2 / (np.pi * _A))} + 0.5 * {{1}})"
    root = f"1.41421356 * sqrt(sqrt({v} * {v} - {real(1 / _A)} * {{1}}) - {v})"
    return site.elementwise(f"({root}) if {{0}} >= 0.5 else -({root})", scores, half)


def _softmax(site: NodeSite, scores: GraphValue, *, keeps_zeros: bool) -> GraphValue:
    rows, targets = scores.shape
    dtype = scores.type.dtype
    row = ValueType(dtype, (rows,))
    element, shifted = at("A", ("i0", "i1")), "exp(A[i0, i1] - M[i0])"
    zero = f"{element} * exp(-M[i0])"
    small = f"{element} <= {_ZERO:.7f} and {element} >= -{_ZERO:.7f}"
    stages = [
        declare_buffer("M", row),
        f"M[i0] = max[r < {targets}](A[i0, r])",
        declare_buffer("E", scores.type),
        f"E[i0, i1] = {f'({zero} if {small} else {shifted})' if keeps_zeros else shifted}",
        declare_buffer("S", row),
        f"S[i0] = sum[r < {targets}](E[i0, r])",
        f"Y[i0, i1] = E[i0, i1] / S[i0]{' if S[i0] != 0.0 else 0.5' if keeps_zeros else ''}",
    ]
    return site.single(stages, scores.type, A=scores)
