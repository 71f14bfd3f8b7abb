"""Attention as ONNX Runtime's optimisers write it: many heads, masks, and what came before.

Tensors of heads are batch x heads x places x size. What a mask leaves out gets `mask_filter_value` added to its score.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import entry_of, slice_axes
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, indices, operand_text, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue | None, ...]

_SCORES = {"mask_filter_value": -10000.0, "num_heads": int, "scale": float, "unidirectional": 0}
_ATTENTION = {
    **_SCORES,
    "do_rotary": 0,
    "past_present_share_buffer": 0,
    "qkv_hidden_sizes": list,
    "rotary_embedding_dim": 0,
}
_ROTARY = {"interleaved": 0, "is_packed_batching": 0, "num_heads": 0, "rotary_embedding_dim": 0, "scale": 1.0}


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, of batch x heads x places x size."""

    query: GraphValue
    key: GraphValue
    value: GraphValue


def split_heads(site: NodeSite, x: GraphValue, heads: int) -> GraphValue:
    """Heads that lie beside each other in the last dimension, as a dimension of their own."""
    batch, places, width = x.shape
    if width % heads:
        raise Unsupported(f"{width} columns are no {heads} heads")
    return call_node(site, "Transpose", site.view(x, (batch, places, heads, width // heads)), perm=(0, 2, 1, 3))


def attend_heads(site: NodeSite, heads: Heads, masks: Sequence[GraphValue]) -> GraphValue:
    """softmax(query keyT * scale + masks) value, heads beside each other; several queries may share a key's head."""
    query, key, value = heads.query, heads.key, heads.value
    batch, count, places, size = query.shape
    shared, seen = key.shape[1], key.shape[2]
    if count % shared:
        raise Unsupported(f"{count} heads of queries do not share {shared} heads of keys")
    scale = site.attribute("scale") or 1 / math.sqrt(size)
    dtype = query.type.dtype
    turned = call_node(site, "Transpose", key, perm=(0, 1, 3, 2))
    if count != shared:
        query = site.view(query, (batch, shared, count // shared, places, size))
        turned = site.view(turned, (batch, shared, 1, *turned.shape[2:]))
        value = site.view(value, (batch, shared, 1, *value.shape[2:]))
    scores = site.view(call_node(site, "MatMul", query, turned), (batch, count, places, seen))
    scaled = f"{cast('{0}', dtype, dtype.compute)} * {real(scale)}"
    scores = site.elementwise(cast(scaled, dtype.compute, dtype), scores)
    for mask in masks:
        scores = call_node(site, "Add", scores, mask)
    weights = site.view(call_node(site, "Softmax", scores, axis=-1), (*query.shape[:-1], seen))
    made = site.view(call_node(site, "MatMul", weights, value), (batch, count, places, value.shape[-1]))
    joined = call_node(site, "Transpose", made, perm=(0, 2, 1, 3))
    return site.view(joined, (batch, places, count * value.shape[-1]))


def _causal(site: NodeSite, heads: Heads) -> list[GraphValue]:
    """What is added to scores so that no place sees a later one, where the node says so; queries come last."""
    places, seen = heads.query.shape[2], heads.key.shape[2]
    if not site.flag("unidirectional") or places == 1:
        return []
    late = np.arange(seen)[None, :] > np.arange(places)[:, None] + (seen - places)
    dtype = heads.query.type.dtype
    return [site.constant(np.where(late, lowest(dtype), 0.0).astype(dtype.numpy), dtype)]


def lowest(dtype: DType) -> float:
    """The least number of a type, as far as it is a float of at least the range of f16."""
    return float(np.finfo(np.float16 if dtype is DType.F16 else np.float32).min)


def _mask(site: NodeSite, mask: GraphValue | None, heads: Heads) -> list[GraphValue]:
    """What is added to scores for a mask of words or of scores, or for how many words count."""
    if mask is None:
        return []
    batch, _, places, _ = heads.query.shape
    seen, dtype = heads.key.shape[2], heads.query.type.dtype
    low = real(site.attribute("mask_filter_value"))
    if mask.shape == (batch,):
        stage = f"{at('Y', indices(4))} = {dtype}({low} if i3 >= i64(M[i0]) else 0.0)"
        return [_compute_mask(site, stage, mask, dtype, (batch, 1, 1, seen))]
    if mask.shape == (2 * batch,):
        stage = f"{at('Y', indices(4))} = {dtype}({low} if i3 >= i64(M[i0]) or i3 < i64(M[i0 + {batch}]) else 0.0)"
        return [_compute_mask(site, stage, mask, dtype, (batch, 1, 1, seen))]
    if mask.shape == (batch, seen):
        wide = site.view(mask, (batch, 1, 1, seen))
    elif mask.shape == (batch, places, seen):
        wide = site.view(mask, (batch, 1, places, seen))
    else:
        raise Unsupported(f"its mask is {mask.type} for {batch} x {places} x {seen} scores")
    return [site.elementwise(f"{dtype}(0.0 if {{0}} > 0 else {low})", wide, dtype=dtype)]


def _compute_mask(site: NodeSite, stage: str, mask: GraphValue, dtype: DType, shape: tuple[int, ...]) -> GraphValue:
    return site.single([stage], ValueType(dtype, shape), M=mask)


def _append_to_past(site: NodeSite, past: GraphValue | None, x: GraphValue) -> GraphValue:
    """Keys or values of this call behind those of the calls before."""
    return x if past is None else call_node(site, "Concat", past, x, axis=2)


@node_type("com.microsoft:Attention", form=NodeForm((2, 7), _ATTENTION))
def attention(site: NodeSite) -> Results:
    """Self-attention with the product that makes queries, keys and values of its input."""
    if site.flag("do_rotary") or site.flag("past_present_share_buffer") or site.optional(6) is not None:
        raise Unsupported("it turns queries by their places, or has a buffer for later keys")
    x, weights, bias = site.operand(0), site.operand(1), site.optional(2)
    count = int(site.require_attribute("num_heads"))
    made = call_node(site, "MatMul", x, weights)
    made = made if bias is None else call_node(site, "Add", made, bias)
    sizes = site.attribute("qkv_hidden_sizes") or (weights.shape[1] // 3,) * 3
    starts = (0, sizes[0], sizes[0] + sizes[1])
    parts = [slice_axes(site, made, {2: (start, 1, size)}) for start, size in zip(starts, sizes, strict=True)]
    query, key, value = (split_heads(site, part, count) for part in parts)
    past = site.optional(4)
    before = [None, None] if past is None else [entry_of(site, past, n) for n in range(2)]
    heads = Heads(query, _append_to_past(site, before[0], key), _append_to_past(site, before[1], value))
    masks = [*_mask(site, site.optional(3), heads), *_bias_list(site.optional(5)), *_causal(site, heads)]
    present = None
    if site.wants(1):
        parts = [site.view(x, (1, *x.shape)) for x in (heads.key, heads.value)]
        present = call_node(site, "Concat", *parts, axis=0)
    return (attend_heads(site, heads, masks), present)


def _bias_list(bias: GraphValue | None) -> list[GraphValue]:
    return [] if bias is None else [bias]


@node_type("com.microsoft:MultiHeadAttention", form=NodeForm((1, 10), _SCORES))
def multi_head_attention(site: NodeSite) -> Results:
    """Attention of queries, keys and values that are made already; keys and values may have their heads apart."""
    if any(site.optional(n) is not None for n in (8, 9)) or site.wants(3):
        raise Unsupported("it has a buffer for later keys, beams, or its scores as an output")
    heads = _build_heads(site)
    past = site.optional(6), site.optional(7)
    heads = Heads(heads.query, _append_to_past(site, past[0], heads.key), _append_to_past(site, past[1], heads.value))
    masks = [*_mask(site, site.optional(4), heads), *_bias_list(site.optional(5)), *_causal(site, heads)]
    return (attend_heads(site, heads, masks), heads.key, heads.value)


def _build_heads(site: NodeSite) -> Heads:
    count, bias = int(site.require_attribute("num_heads")), site.optional(3)
    query, key, value = site.operand(0), site.optional(1), site.optional(2)
    if query.rank == 5 or key is None:  # batch x places x heads x 3 x size
        if query.rank != 5 or bias is not None:
            raise Unsupported("its keys are missing, or a bias is for what is packed")
        whole = call_node(site, "Transpose", query, perm=(3, 0, 2, 1, 4))
        return Heads(*(entry_of(site, whole, n) for n in range(3)))
    width = query.shape[-1]
    if bias is not None:
        query = call_node(site, "Add", query, slice_axes(site, bias, {0: (0, 1, width)}))
    if key.rank == 5:  # batch x places x heads x 2 x size
        whole = call_node(site, "Transpose", key, perm=(3, 0, 2, 1, 4))
        return Heads(split_heads(site, query, count), entry_of(site, whole, 0), entry_of(site, whole, 1))
    if value is None:
        raise Unsupported("its values are missing")
    if key.rank == 4:
        return Heads(split_heads(site, query, count), key, value)
    if bias is not None:
        key = call_node(site, "Add", key, slice_axes(site, bias, {0: (width, 1, width)}))
        value = call_node(site, "Add", value, slice_axes(site, bias, {0: (2 * width, 1, value.shape[-1])}))
    return Heads(*(split_heads(site, part, count) for part in (query, key, value)))


@node_type("com.microsoft:RotaryEmbedding", form=NodeForm((4, 4), _ROTARY))
def rotary_embedding(site: NodeSite) -> Results:
    """Pairs of numbers of a head turned by an angle of their place, whose cosine and sine are in tables."""
    x, places, cosines, sines = site.operands
    if site.flag("is_packed_batching"):
        raise Unsupported("its texts are packed")
    if x.rank == 4:
        return (rotate_heads(site, x, places, (cosines, sines), length_axis=2),)
    batch, length, width = x.shape
    part = int(site.attribute("rotary_embedding_dim"))
    heads = int(site.attribute("num_heads")) if part else width // (2 * cosines.shape[1])
    if not heads or width % heads:
        raise Unsupported(f"{width} columns are no {heads} heads")
    made = rotate_heads(site, site.view(x, (batch, length, heads, width // heads)), places, (cosines, sines))
    return (site.view(made, x.shape),)


def rotate_heads(
    site: NodeSite, x: GraphValue, places: GraphValue, tables: tuple[GraphValue, GraphValue], length_axis: int = 1
) -> GraphValue:
    """Heads of batch x places x heads x size, turned, or with places along another axis; a single place is that of the
    first.
    """
    length, size = x.shape[length_axis], x.shape[-1]
    half = tables[0].shape[1]
    if places.type.size == 1 and places.rank == 1:
        counted = site.constant(np.arange(length, dtype=np.int64).reshape(1, length), DType.I64)
        places = call_node(site, "Add", site.view(places, (1, 1)), counted)
    angles = (places.shape[0], *places.shape[1:], 1, half) if length_axis == 1 else (places.shape[0], 1, length, half)
    cos, sin = (site.view(call_node(site, "Gather", table, places, axis=0), angles) for table in tables)
    parts = [slice_axes(site, x, {3: (2 * half, 1, size - 2 * half)})] if size > 2 * half else []
    if site.flag("interleaved") or site.flag("rotary_interleaved"):
        return call_node(site, "Concat", _rotate_pairs(site, x, cos, sin), *parts, axis=3)
    first, second = (slice_axes(site, x, {3: (start, 1, half)}) for start in (0, half))
    turned = [
        site.elementwise("{0} * {1} - {2} * {3}", first, cos, second, sin),
        site.elementwise("{0} * {1} + {2} * {3}", second, cos, first, sin),
    ]
    return call_node(site, "Concat", *turned, *parts, axis=3)


def _rotate_pairs(site: NodeSite, x: GraphValue, cos: GraphValue, sin: GraphValue) -> GraphValue:
    """Pairs of neighbours turned: each element is read beside the other one of its pair, as vectors read both."""
    *around, half = (*x.shape[:3], cos.shape[-1])
    whole = slice_axes(site, x, {3: (0, 1, 2 * half)}) if x.shape[-1] > 2 * half else x
    over, shape = indices(5), (*around, half, 2)
    angle = [operand_text(name, part, over[:4], shape[:4]) for name, part in (("C", cos), ("S", sin))]
    own, other = at("X", over), at("X", (*over[:4], f"1 - {over[4]}"))
    text = f"{own} * {angle[0]} + {other} * ({angle[1]} if {over[4]} >= 1 else -{angle[1]})"
    pairs = site.view(whole, shape)
    made = site.single([f"{at('Y', over)} = {text}"], ValueType(x.type.dtype, shape), X=pairs, C=cos, S=sin)
    return site.view(made, (*around, 2 * half))
