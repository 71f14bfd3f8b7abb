"""Convolutions whose taps data move: what each tap reads is computed first, and then multiplied by the filter.

Channels lie side by side in what is computed, as all of them are read at the same places: an element between those of
the grid is a sum of few rows of channels. Their places and weights are computed once for all channels.
"""

from __future__ import annotations

import math

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, index_ranges, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]


@dataclass(frozen=True)
class _Filter:
    """Numbers of a filter along each axis, of groups of channels, and of elements of the data and of the result."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int
    moved_groups: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """Variables of the taps."""
        return indices(len(self.kernel), "k")

    @property
    def over(self) -> tuple[str, ...]:
        """Variables of the places of the result."""
        return indices(len(self.kernel), "h")

    @property
    def corners(self) -> tuple[str, ...]:
        """Variables of the two elements around a place along each axis."""
        return indices(len(self.kernel), "t")

    @property
    def pixels(self) -> int:
        """Elements of a channel of the data."""
        return math.prod(self.inputs)


@node_type("DeformConv")
def deformable_convolution(site: NodeSite) -> Results:
    """A convolution, each of whose taps at each output is moved by an offset, and perhaps multiplied by a number."""
    x, w, offset, bias, mask = site.operand(0), site.operand(1), site.operand(2), site.optional(3), site.optional(4)
    own = _filter(site, x, w, offset)
    taps = (x.shape[0], own.moved_groups, *own.kernel)
    if not x.type.dtype.is_float or offset.type.size != math.prod((*taps, len(own.kernel), *own.outputs)):
        raise Unsupported(f"offsets of {offset.type} are not those of a filter of {own.kernel} over {x.type}")
    offsets = site.view(offset, (*taps, len(own.kernel), *own.outputs))
    masks = None if mask is None else site.view(mask, (*taps, *own.outputs))
    rows, weights = _corners(site, own, x.type.dtype, offsets, masks)
    return (_product(site, own, _columns(site, own, _rows(site, own, x), rows, weights), (x, w, bias)),)


def _corners(
    site: NodeSite, own: _Filter, dtype: DType, offsets: GraphValue, masks: GraphValue | None
) -> tuple[GraphValue, GraphValue]:
    """Which pixels each tap reads at each output, and the weight of each: of those outside, the row behind the last."""
    wide, dims = dtype.compute, range(len(own.kernel))
    here, shape = ("n", "g", *own.steps, *own.over), (*offsets.shape[: 2 + len(own.kernel)], *own.outputs)
    spots, stages = ValueType(wide, shape), list[str]()
    for d in dims:
        begin = f"{own.over[d]} * {own.strides[d]} - {own.pads[d]} + {own.steps[d]} * {own.dilations[d]}"
        moved = cast(at("O", ("n", "g", *own.steps, str(d), *own.over)), offsets.type.dtype, wide)
        stages += [declare_buffer(f"P{d}", spots), f"{at(f'P{d}', here)} = {wide}({begin}) + {moved}"]
        stages += [declare_buffer(f"F{d}", spots), f"{at(f'F{d}', here)} = floor({at(f'P{d}', here)})"]
    spot = [f"({at(f'F{d}', here)} + {wide}({own.corners[d]}))" for d in dims]
    inside = " and ".join(f"{spot[d]} >= 0.0 and {spot[d]} <= {own.inputs[d] - 1}.0" for d in dims)
    pixel = "0"
    for d in dims:
        pixel = f"({pixel}) * {own.inputs[d]} + i32({spot[d]})" if d else f"i32({spot[d]})"
    weight = " * ".join(f"(1.0 - abs({at(f'P{d}', here)} - {spot[d]}))" for d in dims)
    factor = "" if masks is None else f" * {cast(at('M', here), masks.type.dtype, wide)}"
    corner = ("n", "g", *own.steps, *own.corners, *own.over)
    many = (*shape[: 2 + len(own.kernel)], *(2 for _ in dims), *own.outputs)
    stages += [
        f"{at('J', corner)} = {pixel} if {inside} else i32({own.pixels})",
        f"{at('W', corner)} = {weight}{factor} if {inside} else 0.0",
    ]
    outputs = {"J": ValueType(DType.I32, many), "W": ValueType(wide, many)}
    rows, weights = site.program(stages, outputs, O=offsets, M=masks)
    return rows, weights


def _rows(site: NodeSite, own: _Filter, x: GraphValue) -> GraphValue:
    """The channels of each pixel side by side, and behind the last pixel zeros."""
    batch, channels = x.shape[:2]
    flat = site.view(x, (batch, channels, own.pixels))
    stage = f"Y[n, p, c] = A[n, c, p] if p < {own.pixels} else {x.type.dtype}(0)"
    return site.single([stage], ValueType(x.type.dtype, (batch, own.pixels + 1, channels)), A=flat)


def _columns(site: NodeSite, own: _Filter, x: GraphValue, rows: GraphValue, weights: GraphValue) -> GraphValue:
    """What each tap reads at each output: a sum of rows of channels."""
    batch, _, channels = x.shape
    wide = x.type.dtype.compute
    group = f"c // {channels // own.moved_groups}" if own.moved_groups > 1 else "0"
    corner = ("n", group, *own.steps, *own.corners, *own.over)
    row = f"min(max(i64({at('J', corner)}), 0), {own.pixels})"
    term = f"{at('W', corner)} * {cast(f'A[n, {row}, c]', x.type.dtype, wide)}"
    ranges = index_ranges(own.corners, (2,) * len(own.kernel))
    stage = f"{at('Y', ('n', *own.over, *own.steps, 'c'))} = sum[{ranges}]({term})"
    made = ValueType(wide, (batch, *own.outputs, *own.kernel, channels))
    return site.single([stage], made, A=x, J=rows, W=weights)


def _product(
    site: NodeSite, own: _Filter, columns: GraphValue, operands: tuple[GraphValue, GraphValue, GraphValue | None]
) -> GraphValue:
    x, w, bias = operands
    dtype, wide = x.type.dtype, x.type.dtype.compute
    each, filters = x.shape[1] // own.groups, w.shape[0]
    column = at("S", ("n", *own.over, *own.steps, f"o // {filters // own.groups} * {each} + c"))
    weight = cast(at("K", ("o", "c", *own.steps)), w.type.dtype, wide)
    left, shape = ("n", "o", *own.over), (x.shape[0], filters, *own.outputs)
    total = at("T", left) if bias is None else f"{at('T', left)} + {cast('B[o]', bias.type.dtype, wide)}"
    stages = [
        declare_buffer("T", ValueType(wide, shape)),
        f"{at('T', left)} = sum[{index_ranges(own.steps, own.kernel)}, c < {each}]({weight} * {column})",
        f"{at('Y', left)} = {cast(total, wide, dtype)}",
    ]
    return site.single(stages, ValueType(dtype, shape), S=columns, K=w, B=bias)


def _filter(site: NodeSite, x: GraphValue, w: GraphValue, offset: GraphValue) -> _Filter:
    dims = x.rank - 2
    if dims < 1 or w.rank != x.rank:
        raise Unsupported(f"{w.type} is no filter over {x.type}")
    strides, dilations = (tuple(site.attribute(name) or (1,) * dims) for name in ("strides", "dilations"))
    pads = tuple(site.attribute("pads") or (0,) * 2 * dims)
    groups, moved = (int(site.attribute(name, 1)) for name in ("group", "offset_group"))
    if x.shape[1] % groups or x.shape[1] % moved or w.shape[0] % groups or w.shape[1] * groups != x.shape[1]:
        raise Unsupported(f"{w.type} and {x.type} have no {groups} groups of channels, with offsets of {moved}")
    sizes = (tuple(x.shape[2:]), tuple(offset.shape[2:]))
    return _Filter(tuple(w.shape[2:]), strides, dilations, pads, groups, moved, *sizes)
