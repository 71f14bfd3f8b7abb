"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.graph.builder import GraphValue
from metasched.graph.text import real


def _value_or_full(site: AtenSite, given: GraphValue | None, shape: Sequence[int], value: float) -> GraphValue:
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
    scale, offset = _value_or_full(site, weight, mean.shape, 1), _value_or_full(site, bias, mean.shape, 0)
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
    scale = _value_or_full(site, weight, normalized_shape, 1)
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
    one, zero = (_value_or_full(site, None, (groups,), value) for value in (1, 0))
    made = site.nodes.view(site.call("InstanceNormalization", grouped, one, zero, epsilon=float(eps)), x.shape)
    if weight is None and bias is None:
        return made, None, None
    by_channel = (channels, *(1,) * (x.rank - 2))
    scale, offset = (_value_or_full(site, given, (channels,), v) for given, v in ((weight, 1), (bias, 0)))
    parts = [site.nodes.view(given, by_channel) for given in (scale, offset)]
    return site.expression("{0} * {1} + {2}", made, *parts), None, None


@aten("_softmax", "_log_softmax", "softmax.int", "log_softmax.int")
def softmax(site: AtenSite, x: GraphValue, dim: int, half_to_float: bool = False) -> GraphValue:
    op = "LogSoftmax" if "log" in site.name else "Softmax"
    given = site.value(x, site.result)
    if not x.rank:
        return site.nodes.view(site.call(op, site.nodes.view(given, (1,)), axis=0), ())
    return site.call(op, given, axis=site.axis(dim, x.rank))


@aten("_safe_softmax")
def safe_softmax(site: AtenSite, x: GraphValue, dim: int, *, dtype: object = None) -> GraphValue:
    return softmax_along(site, site.value(x, site.result), site.axis(dim, x.rank), empty=True)


def softmax_along(site: AtenSite, x: GraphValue, axis: int, *, empty: bool) -> GraphValue:
    """Shares along an axis; those of a row of -inf alone are zero where `empty` rows may be."""
    made = site.call("Softmax", x, axis=axis)
    if not empty:
        return made
    largest = site.call("ReduceMax", x, axes=(axis,), keepdims=1)
    return site.nodes.expression(
        "Safe", "(0.0 if {1} == -inf else {0})", [made, largest], [x.type.dtype] * 2, x.type.dtype
    )


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_its_own(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue | None,
    bias: GraphValue | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[GraphValue | None, ...]:
    made, mean, root, _ = _normalize_channels(site, x, weight, bias, eps)
    return made, site.value(mean, site.types[1].dtype), site.value(root, site.types[2].dtype)


@aten("_native_batch_norm_legit_functional")
def batch_norm_in_training(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue | None,
    bias: GraphValue | None,
    running_mean: GraphValue,
    running_var: GraphValue,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[GraphValue | None, ...]:
    """A batch normalisation with the statistics of the batch, and the running ones after it."""
    if not training:
        known = batch_norm(site, x, weight, bias, running_mean, running_var, momentum, eps)
        return (*known, running_mean, running_var)
    made, mean, root, variance = _normalize_channels(site, x, weight, bias, eps)
    count = x.type.size // x.shape[1]
    share, rest = real(momentum), real(1 - momentum)
    unbiased = real(momentum * count / max(count - 1, 1))
    types = [type_.dtype for type_ in site.types]
    means, variances = (
        site.accumulate(f"{{0}} * {factor} + {{1}} * {rest}", of_batch, running, result=dtype)
        for factor, of_batch, running, dtype in (
            (share, mean, running_mean, types[3]),
            (unbiased, variance, running_var, types[4]),
        )
    )
    return made, site.value(mean, types[1]), site.value(root, types[2]), means, variances


def _normalize_channels(
    site: AtenSite, x: GraphValue, weight: GraphValue | None, bias: GraphValue | None, eps: float
) -> tuple[GraphValue, GraphValue, GraphValue, GraphValue]:
    """Channels normalised by their statistics, and the mean, reciprocal deviation and variance of each.

    Statistics have the type that PyTorch computes in: squares of halves may be beyond them.
    """
    axes, wide = tuple(n for n in range(x.rank) if n != 1), x.type.dtype.compute
    mean = site.call("ReduceMean", site.value(x, wide), axes=axes, keepdims=1)
    off = site.accumulate("({0} - {1}) * ({0} - {1})", x, mean, result=wide)
    variance = site.call("ReduceMean", off, axes=axes, keepdims=1)
    root = site.accumulate(f"rsqrt({{0}} + {real(eps)})", variance, result=wide)
    shape = (x.shape[1], *(1,) * (x.rank - 2))
    scale, offset = (_value_or_full(site, given, shape[:1], v) for given, v in ((weight, 1), (bias, 0)))
    parts = [site.nodes.view(given, shape) for given in (scale, offset)]
    made = site.accumulate("({0} - {1}) * {2} * {3} + {4}", x, mean, root, *parts)
    flat = [site.nodes.view(value, shape[:1]) for value in (mean, root, variance)]
    return made, flat[0], flat[1], flat[2]
