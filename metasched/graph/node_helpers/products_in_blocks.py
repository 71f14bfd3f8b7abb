"""Products with weights of a few bits in which what they multiply is rounded to bytes, a block at a time.

A row is divided into the blocks that the weights have; each is bytes with a scale of its own, the largest magnitude
over 127, so that a block of both is a sum of products of bytes. That is exact in 32 bits and is multiplied by both
scales; a zero point of the weights takes itself times the sum of the row's bytes off it.

Weights are packed so that four bytes side by side hold four terms of one result, and then the next four: instructions
that add up four products of bytes take them so.
"""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.packed_numbers import PackedWeights, arrange_in_panels, number_in
from metasched.graph.site import NodeSite
from metasched.graph.text import cast
from metasched.graph.value_type import ValueType
from metasched.schedule.tensor import intrinsics
from metasched.target import Target

# Terms of a result that lie side by side.
_SIDE_BY_SIDE = 4
# Columns of a panel, the most first: vectors of results.
_PANELS = (64, 32, 16)
_LARGEST_BYTE = 127


def multiplies_bytes(target: Target | None) -> bool:
    """Whether a CPU has an instruction that adds up products of bytes, signed ones by unsigned ones."""
    operands = {DType.I8, DType.U8}
    return target is not None and any(
        all(map(target.has, one.features)) and {x.dtype for x in one.func.inputs} == operands
        for one in intrinsics().values()
    )


def has_products_in_blocks(weights: PackedWeights) -> bool:
    """Whether weights fill whole groups of terms in each block, and whole vectors of results."""
    return not weights.floats and _panel(weights) > 0 and weights.block % _terms_of_group(weights) == 0


def product_in_blocks(site: NodeSite, x: GraphValue, weights: PackedWeights) -> GraphValue:
    """`x @ weights` of f32[rows, length], whose blocks are rounded to bytes, as f32[rows, columns].

    The weights are such as `has_products_in_blocks` says.
    """
    columns, panel, group = weights.bytes.shape[0], _panel(weights), _terms_of_group(weights)
    block, blocks = weights.block, weights.scales.shape[1]
    largest, bytes_, sums = _bytes_of_blocks(site, x, block, blocks)
    at_panel, at_column = f"j // {panel}", f"j % {panel}"
    byte = f"Q[{at_panel}, b * {block // group} + t // {group}, {at_column}, t % {_SIDE_BY_SIDE}]"
    number = byte if weights.bits == 8 else f"u8({number_in(byte, f'(t // {_SIDE_BY_SIDE})', weights.bits)})"
    scale = cast(f"S[{at_panel}, b, {at_column}]", weights.scales.type.dtype, DType.F32)
    if isinstance(weights.zeros, int):
        zero = f"{weights.zeros}.0"
    else:
        zero = cast(f"Z[{at_panel}, b, {at_column}]", weights.zeros.type.dtype, DType.F32)
    stages = [
        f"U: u8[{blocks}, {block}, {columns}]",
        f"U[b, t, j] = {number}",
        "D[i, b, j] = sum[t](i32(A[i, b, t]) * i32(U[b, t, j]))",
        f"Y[i, j] = sum[b]((f32(D[i, b, j]) - {zero} * f32(X[i, b])) * (M[i, b] * {1 / _LARGEST_BYTE!r} * {scale}))",
    ]
    of_blocks = {name: arrange_in_panels(site, part, panel) for name, part in weights.parts.items() if name != "Q"}
    inputs = {"A": bytes_, "M": largest, "X": sums, "Q": _pack_groups(site, weights, panel), **of_blocks}
    return site.single(stages, ValueType(DType.F32, (x.shape[0], columns)), **inputs)


def _panel(weights: PackedWeights) -> int:
    """The columns of a panel; 0 where they are no whole vectors."""
    return next((width for width in _PANELS if weights.bytes.shape[0] % width == 0), 0)


def _terms_of_group(weights: PackedWeights) -> int:
    """The terms of a result in bytes side by side."""
    return _SIDE_BY_SIDE * (8 // weights.bits)


def _bytes_of_blocks(
    site: NodeSite, x: GraphValue, block: int, blocks: int
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """The largest magnitudes in a row's blocks, the blocks in bytes, and the sums of these.

    The last block is filled with zeros.
    """
    rows, length = x.shape
    place = f"b * {block} + t"
    element = f"A[i, {place}]" if blocks * block == length else f"(A[i, {place}] if {place} < {length} else 0.0)"
    of_blocks = (rows, blocks)
    largest = site.single([f"Y[i, b] = max[t < {block}](abs({element}))"], ValueType(DType.F32, of_blocks), A=x)
    number = f"rint({element} * ({_LARGEST_BYTE}.0 / M[i, b] if M[i, b] > 0.0 else 0.0))"
    bytes_ = site.single([f"Y[i, b, t] = i8({number})"], ValueType(DType.I8, (*of_blocks, block)), A=x, M=largest)
    sums = site.single(["Y[i, b] = sum[t](i32(A[i, b, t]))"], ValueType(DType.I32, of_blocks), A=bytes_)
    return largest, bytes_, sums


def _pack_groups(site: NodeSite, weights: PackedWeights, width: int) -> GraphValue:
    """The numbers as u8[panels, groups, width, 4]: the first four of a group are in the lowest bits of its bytes."""
    each, bits, group = 8 // weights.bits, weights.bits, _terms_of_group(weights)
    rows, length = weights.bytes.shape[0], weights.scales.shape[1] * weights.block
    parts = []
    for n in range(each):
        place = f"(g * {group} + {n * _SIDE_BY_SIDE} + t)"
        number = number_in(f"A[p * {width} + c, {place} // {each}]", place, bits)
        parts.append(f"{number} * {2 ** (n * bits)}")
    type_ = ValueType(DType.U8, (rows // width, length // group, width, _SIDE_BY_SIDE))
    return site.single([f"Y[p, g, c, t] = u8({' + '.join(parts)})"], type_, A=weights.bytes)
