"""Weights in blocks of few bits, as ONNX Runtime's quantisers of large language models write them.

What is known at load is made numbers of the operands' type then: each weight takes their bytes in memory.
"""

from __future__ import annotations

import numpy as np

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_types.matmul import product
from metasched.graph.registry import NodeForm, called, node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue, ...]

_BITS = (2, 4, 8)
_PRODUCT = {"K": int, "N": int, "accuracy_level": 0, "bits": 4, "block_size": int, "weight_prepacked": 0}
_GATHER = {"bits": 4, "block_size": 128, "gather_axis": 0, "quantize_axis": 1}


def _bits(site: NodeSite) -> int:
    bits = int(site.attribute("bits"))
    if bits not in _BITS:
        raise Unsupported(f"its numbers are of {bits} bits")
    return bits


def unpacked(packed: Array, bits: int) -> Array:
    """Numbers of a few bits each, in the last dimension of unsigned bytes; the first is in the lowest bits."""
    steps = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> steps) & np.uint8(2**bits - 1)
    return parts.reshape(*packed.shape[:-1], packed.shape[-1] * len(steps))


def _by_blocks(q: Array, scales: Array, zeros: Array | int, block: int) -> Array:
    """`(q - zero) * scale` in the scales' type, where blocks of the last dimension have a scale and a zero point."""
    dtype, extent = scales.dtype, q.shape[-1]
    spread = np.repeat(scales.astype(np.float32), block, axis=-1)[..., :extent]
    middle = np.repeat(zeros, block, axis=-1)[..., :extent] if isinstance(zeros, np.ndarray) else zeros
    return ((q.astype(np.float32) - np.asarray(middle, np.float32)) * spread).astype(dtype)


def _zeros(site: NodeSite, number: int, scales: Array, bits: int) -> Array | int:
    """Zero points in the shape of the scales: packed in bytes, or numbers of the scales' type; the middle without."""
    if site.optional(number) is None:
        return int(2 ** (bits - 1))
    given = site.known(number, "zero points")
    if given.dtype != np.uint8:
        return given.reshape(scales.shape)
    blocks = scales.shape[-1]
    rows = given.reshape(*scales.shape[:-1], -(-blocks * bits // 8))
    return np.ascontiguousarray(unpacked(rows, bits)[..., :blocks])


@node_type("com.microsoft:MatMulNBits", form=NodeForm((3, 6), _PRODUCT))
def matmul_of_blocks(site: NodeSite) -> Results:
    x, bits = site.operand(0), _bits(site)
    if int(site.attribute("weight_prepacked")):
        raise Unsupported("its weights are packed for a GPU")
    if site.optional(4) is not None:
        raise Unsupported("its weights are in an order of their own (`g_idx`)")
    n, k, block = (int(site.required(name)) for name in ("N", "K", "block_size"))
    q, scales = site.known(1, "weights"), site.known(2, "scales")
    blocks = -(-k // block)
    if q.size * 8 != n * blocks * block * bits or scales.size != n * blocks:
        raise Unsupported(f"{q.size} bytes and {scales.size} scales are no {n} rows of {k} numbers of {bits} bits")
    scales = scales.reshape(n, blocks)
    whole = unpacked(q.reshape(n, -1), bits)[:, :k]
    weights = _by_blocks(whole, scales, _zeros(site, 3, scales, bits), block)
    dtype = x.type.dtype
    right = site.constant(np.ascontiguousarray(weights.T), dtype)
    made, bias = product(site, x, right, dtype.compute, dtype), site.optional(5)
    return (made if bias is None else called(site, "Add", made, bias),)


@node_type("com.microsoft:GatherBlockQuantized", form=NodeForm((3, 4), _GATHER))
def gather_of_blocks(site: NodeSite) -> Results:
    data, scales, bits = site.known(0, "table"), site.known(2, "scales"), _bits(site)
    if data.dtype != np.uint8:
        raise Unsupported(f"its table is of {data.dtype}")
    axis = site.axis(int(site.attribute("quantize_axis")), data.ndim)
    if axis != data.ndim - 1:
        raise Unsupported("its blocks are not along the last dimension")
    zeros = _zeros(site, 3, scales, bits)
    table = _by_blocks(unpacked(data, bits), scales, zeros, int(site.attribute("block_size")))
    return (called(site, "Gather", site.constant(table), site.operand(1), axis=int(site.attribute("gather_axis"))),)
