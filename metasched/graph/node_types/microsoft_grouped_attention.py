"""Attention whose queries share keys and values, and which keeps them for later calls, as language models have it.

How many keys each text has is data (`seqlens_k`); how many there are at most (`total_sequence_length`) is a shape.
"""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.node_types.microsoft_attention import Heads, attend_heads, lowest, rotate_heads
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue | None, ...]

_FORM = {
    "causal": 1,
    "do_rotary": 0,
    "k_norm_epsilon": float,
    "k_quant_type": "NONE",
    "kv_cache_bit_width": 0,
    "kv_num_heads": int,
    "local_window_size": -1,
    "num_heads": int,
    "q_norm_epsilon": float,
    "qk_norm_epsilon": 1e-6,
    "qk_output": 0,
    "rotary_interleaved": 0,
    "scale": float,
    "sliding_window_cache": 0,
    "smooth_softmax": -1,
    "softcap": 0.0,
    "v_quant_type": "NONE",
}
# Attributes that may only be these.
_SUPPORTED_ATTRIBUTES = {
    "causal": (1,),
    "k_quant_type": ("NONE",),
    "local_window_size": (-1,),
    "qk_output": (0,),
    "sliding_window_cache": (0,),
    "smooth_softmax": (-1, 0),
    "softcap": (0.0,),
    "v_quant_type": ("NONE",),
}
_PLACES = 9  # the input of places; those after it ask for what is not known here


@dataclass(frozen=True)
class _Past:
    """What came before this call.

    Attributes:
        count: how many places of each text; None where there are none.
        total: how many places the longest text has, with those of this call.

    """

    count: GraphValue | None
    total: int


@node_type("com.microsoft:GroupQueryAttention", form=NodeForm((7, 17), _FORM))
def group_query_attention(site: NodeSite) -> Results:
    _require_plain(site)
    query, key, value = _parts(site)
    past = _past(site, query.shape[1])
    if site.flag("do_rotary"):
        tables, places = (site.operand(7), site.operand(8)), _places(site, past, query.shape[1])
        query, key = (rotate_heads(site, x, places, tables) for x in (query, key))
    query, key, value = (call_node(site, "Transpose", x, perm=(0, 2, 1, 3)) for x in (query, key, value))
    key, value = _append_to_past(site, 3, key, past), _append_to_past(site, 4, value, past)
    heads = Heads(query, key, value)
    return (attend_heads(site, heads, [_causal(site, heads, past)]), key, value)


def _require_plain(site: NodeSite) -> None:
    for name, known in _SUPPORTED_ATTRIBUTES.items():
        if site.attribute(name) not in known:
            raise Unsupported(f"its `{name}` is {site.attribute(name)}, and only {known[0]} is known")
    if any(site.optional(n) is not None for n in range(_PLACES + 1, 17)):
        raise Unsupported("it has a bias of scores, sinks, norms of its queries, quantised keys or padded queries")


def _parts(site: NodeSite) -> list[GraphValue]:
    """Queries, keys and values, of batch x places x heads x size."""
    query, key, value = site.operand(0), site.optional(1), site.optional(2)
    count, shared = int(site.require_attribute("num_heads")), int(site.require_attribute("kv_num_heads"))
    if key is None or value is None:
        size = query.shape[2] // (count + 2 * shared)
        widths = (count * size, shared * size, shared * size)
        starts = (0, widths[0], widths[0] + widths[1])
        parts = [slice_axes(site, query, {2: (at, 1, width)}) for at, width in zip(starts, widths, strict=True)]
    else:
        parts = [query, key, value]
    heads = (count, shared, shared)
    return [site.view(x, (*x.shape[:2], many, x.shape[2] // many)) for x, many in zip(parts, heads, strict=True)]


def _past(site: NodeSite, length: int) -> _Past:
    total = site.integers(6, "total length")[0]
    if total == length:
        return _Past(None, total)
    # The last keys of each text are those of this call.
    text = f"i64({{0}}) + {1 - length}"
    return _Past(site.elementwise(text, site.operand(5), dtype=DType.I64), total)


def _places(site: NodeSite, past: _Past, length: int) -> GraphValue:
    """Where each query is in its text."""
    given = site.optional(_PLACES)
    counted = site.constant(np.arange(length, dtype=np.int64).reshape(1, length), DType.I64)
    if past.count is None:
        if given is None:
            return counted
        return site.view(slice_axes(site, site.view(given, (given.type.size,)), {0: (0, 1, 1)}), (1,))
    if given is not None:
        return given
    return call_node(site, "Add", site.view(past.count, (past.count.shape[0], 1)), counted)


def _append_to_past(site: NodeSite, number: int, x: GraphValue, past: _Past) -> GraphValue:
    """Keys or values of before and of this call; where a text has fewer, there is zero behind them."""
    before = site.optional(number)
    batch, heads, length, size = x.shape
    known = 0 if before is None else before.shape[2]
    extent = max(past.total, known)
    if past.count is None and extent == length:
        return x
    own = x.type.dtype
    count = past.count if past.count is not None else site.constant(np.zeros(batch, np.int64), DType.I64)
    stages = [
        f"J: i64[{batch}, {extent}]",
        "J[i0, i2] = i2 - C[i0]",
        f"Y[i0, i1, i2, i3] = N[i0, i1, J[i0, i2], i3] if J[i0, i2] >= 0 and J[i0, i2] < {length} else "
        + (f"B[i0, i1, i2, i3] if J[i0, i2] < 0 and i2 < {known} else {own}(0.0)" if known else f"{own}(0.0)"),
    ]
    type_ = ValueType(own, (batch, heads, extent, size))
    return site.single(stages, type_, N=x, C=count, B=before if known else None)


def _causal(site: NodeSite, heads: Heads, past: _Past) -> GraphValue:
    """What is added to scores so that no place sees a later one."""
    batch, _, length, _ = heads.query.shape
    seen, dtype = heads.key.shape[2], heads.query.type.dtype
    if past.count is None:
        late = np.arange(seen)[None, :] > np.arange(length)[:, None]
        return site.constant(np.where(late, lowest(dtype), 0.0).astype(dtype.numpy), dtype)
    stage = f"Y[i0, i1, i2, i3] = {dtype}({real(lowest(dtype))} if i3 > C[i0] + i2 else 0.0)"
    return site.single([stage], ValueType(dtype, (batch, 1, length, seen)), C=past.count)
