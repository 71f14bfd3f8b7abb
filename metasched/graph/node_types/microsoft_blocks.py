"""Weights in blocks of few bits, as ONNX Runtime's quantisers of large language models write them.

They stay packed in memory, and are unpacked where they are multiplied: see `graph/node_helpers/packed_numbers.py`.
"""

from __future__ import annotations

import math

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.packed_numbers import (
    BITS,
    PackedWeights,
    ZeroPoints,
    numbers_in,
    unpack_matrix,
    unpack_rows,
)
from metasched.graph.node_helpers.products_in_blocks import (
    has_products_in_blocks,
    multiplies_bytes,
    product_in_blocks,
)
from metasched.graph.node_types.matmul import product
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue, ...]

_PRODUCT = {"K": int, "N": int, "accuracy_level": 0, "bits": 4, "block_size": int, "weight_prepacked": 0}
# The `accuracy_level` of a node that has its input rounded to bytes.
_BYTES_ALLOWED = 4
_GATHER = {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1}


def _bits(site: NodeSite) -> int:
    bits = int(site.attribute("bits"))
    if bits not in BITS:
        raise Unsupported(f"its numbers are of {bits} bits")
    return bits


def _zeros(site: NodeSite, number: int, rows: tuple[int, ...], blocks: int, bits: int) -> ZeroPoints:
    """Zero points of blocks in rows: packed in bytes, or numbers of the scales' type; the middle without."""
    given = site.optional(number)
    if given is None:
        return int(2 ** (bits - 1))
    if given.type.dtype is not DType.U8:
        return site.view(given, (*rows, blocks))
    return numbers_in(site, site.view(given, (*rows, -(-blocks * bits // 8))), bits, blocks)


@node_type("com.microsoft:MatMulNBits", form=NodeForm((3, 6), _PRODUCT))
def matmul_of_blocks(site: NodeSite) -> Results:
    x, bits = site.operand(0), _bits(site)
    if int(site.attribute("weight_prepacked")):
        raise Unsupported("its weights are packed for a GPU")
    if site.optional(4) is not None:
        raise Unsupported("its weights are in an order of their own (`g_idx`)")
    n, k, block = (int(site.require_attribute(name)) for name in ("N", "K", "block_size"))
    q, scales = site.operand(1), site.operand(2)
    blocks = -(-k // block)
    if q.type.size * 8 != n * blocks * block * bits or scales.type.size != n * blocks:
        raise Unsupported(
            f"{q.type.size} bytes and {scales.type.size} scales are no {n} rows of {k} numbers of {bits} bits"
        )
    rows, scales = site.view(q, (n, q.type.size // n)), site.view(scales, (n, blocks))
    weights = PackedWeights(rows, scales, _zeros(site, 3, (n,), blocks, bits), bits, block, k)
    total = _product(site, site.cast(x, DType.F32), weights)
    made, bias = site.cast(total, x.type.dtype), site.optional(5)
    return (made if bias is None else call_node(site, "Add", made, bias),)


def _product(site: NodeSite, x: GraphValue, weights: PackedWeights) -> GraphValue:
    """The product in f32; in bytes where the node allows that, and the CPU has instructions for it."""
    allowed, target = int(site.attribute("accuracy_level")) == _BYTES_ALLOWED, site.builder.target
    if not allowed or not multiplies_bytes(target) or not has_products_in_blocks(weights):
        return product(site, x, unpack_matrix(site, weights), DType.F32, DType.F32)
    if not x.rank or x.shape[-1] != weights.length:
        raise Unsupported(f"{x.type} has no rows of {weights.length} numbers")
    made = product_in_blocks(site, site.view(x, (math.prod(x.shape[:-1]), weights.length)), weights)
    return site.view(made, (*x.shape[:-1], made.shape[-1]))


@node_type("com.microsoft:GatherBlockQuantized", form=NodeForm((3, 4), _GATHER))
def gather_of_blocks(site: NodeSite) -> Results:
    data, index, scales, bits = site.operand(0), site.operand(1), site.operand(2), _bits(site)
    if data.type.dtype is not DType.U8:
        raise Unsupported(f"its table is of {data.type.dtype}")
    axis = site.axis(int(site.attribute("quantize_axis")), data.rank)
    if axis != data.rank - 1:
        raise Unsupported("its blocks are not along the last dimension")
    along = site.axis(int(site.attribute("gather_axis")), data.rank)
    zeros = _zeros(site, 3, scales.shape[:-1], scales.shape[-1], bits)
    block, length = int(site.attribute("block_size")), data.shape[-1] * (8 // bits)
    if along == axis:
        table = unpack_rows(site, PackedWeights(data, scales, zeros, bits, block, length))
        return (call_node(site, "Gather", table, index, axis=along),)
    data, scales = (call_node(site, "Gather", part, index, axis=along) for part in (data, scales))
    if not isinstance(zeros, int):
        zeros = call_node(site, "Gather", zeros, index, axis=along)
    return (unpack_rows(site, PackedWeights(data, scales, zeros, bits, block, length)),)
