"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported


def _filled(site: AtenSite, given: GraphValue | None, shape: Sequence[int], value: float) -> GraphValue:
    """A factor or an offset; where there is none, one that changes nothing."""
    if given is not None:
        return given
    return site.nodes.constant("filled", np.full(tuple(shape), value, site.result.numpy))


@aten("_native_batch_norm_legit_no_training")
def batch_norm(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue | None,
    bias: GraphValue | None,
    mean: GraphValue,
    variance: GraphValue,
    momentum: float,
    eps: float,
) -> tuple[GraphValue | None, ...]:
    site.require_unused(1, 2)
    scale, offset = _filled(site, weight, mean.shape, 1), _filled(site, bias, mean.shape, 0)
    return site.call("BatchNormalization", x, scale, offset, mean, variance, epsilon=float(eps)), None, None


@aten("native_layer_norm")
def layer_norm(
    site: AtenSite,
    x: GraphValue,
    normalized_shape: Sequence[int],
    weight: GraphValue | None,
    bias: GraphValue | None,
    eps: float,
) -> tuple[GraphValue | None, ...]:
    site.require_unused(1, 2)
    scale = _filled(site, weight, normalized_shape, 1)
    made = site.call("LayerNormalization", x, scale, bias, axis=-len(normalized_shape), epsilon=float(eps))
    return made, None, None


@aten("native_group_norm")
def group_norm(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue | None,
    bias: GraphValue | None,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    eps: float,
) -> tuple[GraphValue | None, ...]:
    site.require_unused(1, 2)
    grouped = site.nodes.view(x, (batch, groups, channels // groups * size))
    one, zero = (_filled(site, None, (groups,), value) for value in (1, 0))
    made = site.nodes.view(site.call("InstanceNormalization", grouped, one, zero, epsilon=float(eps)), x.shape)
    if weight is None and bias is None:
        return made, None, None
    by_channel = (channels, *(1,) * (x.rank - 2))
    scale, offset = (_filled(site, given, (channels,), v) for given, v in ((weight, 1), (bias, 0)))
    parts = [site.nodes.view(given, by_channel) for given in (scale, offset)]
    return site.expression("{0} * {1} + {2}", made, *parts), None, None


@aten("_softmax", "_log_softmax", "softmax.int", "log_softmax.int", "_safe_softmax")
def softmax(site: AtenSite, x: GraphValue, dim: int, half_to_float: bool = False) -> GraphValue:
    if "safe" in site.name:
        raise Unsupported("rows without any element have no form here")
    if not x.rank:
        raise Unsupported("it is of one element")
    op = "LogSoftmax" if "log" in site.name else "Softmax"
    return site.call(op, site.value(x, site.result), axis=site.axis(dim, x.rank))
