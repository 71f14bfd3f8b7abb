"""Norms that ONNX Runtime's optimisers write, with the sums ahead of them."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

_EPSILON = 1e-12


def _require_unused(site: NodeSite, *outputs: int) -> None:
    if any(site.wants(number) for number in outputs):
        raise Unsupported("its statistics are outputs, which only training asks for")


# ONNX Runtime puts this one into ONNX's own domain.
@node_type("SimplifiedLayerNormalization", form=NodeForm((2, 2), {"axis": -1, "epsilon": 1e-5, "stash_type": 1}))
def simplified_layer_normalization(site: NodeSite) -> Results:
    _require_unused(site, 1)
    x, scale = site.operands
    return (
        call_node(site, "RMSNormalization", x, scale, axis=site.attribute("axis"), epsilon=site.attribute("epsilon")),
    )


@node_type("com.microsoft:SkipLayerNormalization", form=NodeForm((3, 5), {"epsilon": _EPSILON}))
def skip_layer_normalization(site: NodeSite) -> Results:
    """The norm of a sum, and the sum."""
    _require_unused(site, 1, 2)
    total = _sum(site, site.optional(4))
    scale, bias = site.operand(2), site.optional(3)
    made = call_node(site, "LayerNormalization", total, scale, bias, epsilon=site.attribute("epsilon"))
    return (made, None, None, total)


@node_type("com.microsoft:SkipSimplifiedLayerNormalization", form=NodeForm((3, 4), {"epsilon": _EPSILON}))
def skip_simplified_layer_normalization(site: NodeSite) -> Results:
    _require_unused(site, 1, 2)
    total = _sum(site, site.optional(3))
    made = call_node(site, "RMSNormalization", total, site.operand(2), epsilon=site.attribute("epsilon"))
    return (made, None, None, total)


def _sum(site: NodeSite, bias: GraphValue | None) -> GraphValue:
    total = call_node(site, "Add", site.operand(0), site.operand(1))
    return total if bias is None else call_node(site, "Add", total, bias)


@node_type(
    "com.microsoft:EmbedLayerNormalization", form=NodeForm((7, 9), {"epsilon": _EPSILON, "mask_index_type": int})
)
def embed_layer_normalization(site: NodeSite) -> Results:
    """The norm of the embeddings of words, of their places and of their segments; how many words count; the sum."""
    words, segments, places = site.operand(0), site.optional(1), site.optional(8)
    by_word, by_place, by_segment = site.operand(2), site.operand(3), site.optional(4)
    total = call_node(site, "Gather", by_word, words, axis=0)
    if places is None:
        placed = slice_axes(site, by_place, {0: (0, 1, words.shape[1])})
    else:
        placed = call_node(site, "Gather", by_place, places, axis=0)
    total = call_node(site, "Add", total, placed)
    if segments is not None and by_segment is not None:
        total = call_node(site, "Add", total, call_node(site, "Gather", by_segment, segments, axis=0))
    made = call_node(
        site, "LayerNormalization", total, site.operand(5), site.operand(6), epsilon=site.attribute("epsilon")
    )
    return (made, _count_words(site, words), total)


def _count_words(site: NodeSite, words: GraphValue) -> GraphValue:
    """How many words of each text a mask says to count."""
    batch, length = words.shape
    type_ = ValueType(DType.I32, (batch,))
    mask = site.optional(7)
    if mask is None:
        return site.single(["Y[i0] = 0"], type_)
    return site.single([f"Y[i0] = sum[r0 < {length}](1 if M[i0, r0] == 1 else 0)"], type_, M=mask)
