"""Attention, and the layers that PyTorch runs as one operator of their own when no gradients are wanted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasched.doors.pytorch.ops.normalization import layer_norm, softmax_along
from metasched.doors.pytorch.ops.products import linear
from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.text import real

# The kinds of masks that PyTorch numbers: of places, of padding, and one for each head.
_OF_PLACES, _OF_PADDING, _OF_HEADS = 0, 1, 2


@aten("_transformer_encoder_layer_fwd")
def encoder_layer(
    site: AtenSite,
    src: GraphValue,
    embed_dim: int,
    num_heads: int,
    qkv_weight: GraphValue,
    qkv_bias: GraphValue,
    proj_weight: GraphValue,
    proj_bias: GraphValue,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: GraphValue,
    norm_bias_1: GraphValue,
    norm_weight_2: GraphValue,
    norm_bias_2: GraphValue,
    ffn_weight_1: GraphValue,
    ffn_bias_1: GraphValue,
    ffn_weight_2: GraphValue,
    ffn_bias_2: GraphValue,
    mask: GraphValue | None = None,
    mask_type: int | None = None,
) -> GraphValue:
    def normalized(x: GraphValue, weight: GraphValue, bias: GraphValue) -> GraphValue:
        made = layer_norm(site, x, (embed_dim,), weight, bias, eps)[0]
        assert made is not None
        return made

    weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    x = normalized(src, norm_weight_1, norm_bias_1) if norm_first else src
    attended, _ = _attend_heads(site, (x, x, x), num_heads, weights, mask, mask_type)
    x = site.expression("{0} + {1}", attended, src)
    x = x if norm_first else normalized(x, norm_weight_1, norm_bias_1)
    inner = normalized(x, norm_weight_2, norm_bias_2) if norm_first else x
    inner = linear(site, inner, ffn_weight_1, ffn_bias_1)
    inner = site.call("Gelu", inner, approximate="none") if use_gelu else site.expression("max({0}, 0)", inner)
    made = site.expression("{0} + {1}", linear(site, inner, ffn_weight_2, ffn_bias_2), x)
    return made if norm_first else normalized(made, norm_weight_2, norm_bias_2)


@aten("_native_multi_head_attention")
def multi_head_attention(
    site: AtenSite,
    query: GraphValue,
    key: GraphValue,
    value: GraphValue,
    embed_dim: int,
    num_head: int,
    qkv_weight: GraphValue,
    qkv_bias: GraphValue,
    proj_weight: GraphValue,
    proj_bias: GraphValue,
    mask: GraphValue | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[GraphValue | None, ...]:
    weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
    made, shares = _attend_heads(site, (query, key, value), num_head, weights, mask, mask_type)
    if not need_weights:
        site.require_unused(1)
        return made, None
    return made, site.call("ReduceMean", shares, axes=(1,), keepdims=0) if average_attn_weights else shares


def _attend_heads(
    site: AtenSite,
    operands: tuple[GraphValue, GraphValue, GraphValue],
    heads: int,
    weights: tuple[GraphValue, GraphValue, GraphValue, GraphValue],
    mask: GraphValue | None,
    mask_type: int | None,
) -> tuple[GraphValue, GraphValue]:
    """Attention of queries (batch, place, channel), and its shares (batch, head, query, key)."""
    qkv_weight, qkv_bias, proj_weight, proj_bias = weights
    size = operands[0].shape[-1]
    query, key, value = (
        _split_heads(site, linear(site, x, _third(site, qkv_weight, n), _third(site, qkv_bias, n)), heads)
        for n, x in enumerate(operands)
    )
    scores = site.call("MatMul", query, site.call("Transpose", key, perm=(0, 1, 3, 2)))
    factor = real(1 / math.sqrt(size // heads))
    if mask is None:
        scores = site.expression(f"{{0}} * {factor}", scores)
    else:
        wide = _mask(site, mask, mask_type, scores.shape)
        dtype = scores.type.dtype
        text = f"(-inf if {{1}} else {{0}} * {factor})" if mask.type.dtype.is_bool else f"{{0}} * {factor} + {{1}}"
        kinds = [dtype, mask.type.dtype if mask.type.dtype.is_bool else dtype]
        scores = site.nodes.expression("Mask", text, [scores, wide], kinds, dtype)
    shares = softmax_along(site, scores, 3, empty=mask is not None)
    made = site.call("Transpose", site.call("MatMul", shares, value), perm=(0, 2, 1, 3))
    return linear(site, site.nodes.view(made, operands[0].shape), proj_weight, proj_bias), shares


def _third(site: AtenSite, x: GraphValue, number: int) -> GraphValue:
    """The first, second or last third of a tensor along its first dimension, by its number."""
    count = x.shape[0] // 3
    return slice_axes(site.nodes.site("Slice"), x, {0: (number * count, 1, count)})


def _split_heads(site: AtenSite, x: GraphValue, heads: int) -> GraphValue:
    batch, places, size = x.shape
    return site.call("Transpose", site.nodes.view(x, (batch, places, heads, size // heads)), perm=(0, 2, 1, 3))


def _mask(site: AtenSite, mask: GraphValue, kind: int | None, scores: Sequence[int]) -> GraphValue:
    """A mask in a shape that broadcasts to scores."""
    batch, heads, queries, keys = scores
    shapes = {
        _OF_PLACES: (1, 1, queries, keys),
        _OF_PADDING: (batch, 1, 1, keys),
        _OF_HEADS: (batch, heads, queries, keys),
    }
    if kind not in shapes:
        raise Unsupported(f"its mask is of the kind {kind}")
    shape = shapes[kind]
    if mask.type.size == math.prod(shape):
        return site.nodes.view(mask, shape)
    return site.call("Expand", mask, site.integers(shape))
