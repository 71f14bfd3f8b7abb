"""Elements between those of a grid, at places that data says: regions of images, and filters whose taps are moved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declared, indices, ranged, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]


@node_type("RoiAlign")
def region_of_interest(site: NodeSite) -> Results:
    """Regions of images in a few cells each, of which each is the mean or the largest of places between elements."""
    x, regions, batch = site.operand(0), site.operand(1), site.operand(2)
    ratio = int(site.attribute("sampling_ratio", 0))
    if ratio < 1:
        raise Unsupported("how many places it looks at depends on the size of each region: set `sampling_ratio`")
    if x.rank != 4 or regions.shape[1:] != (4,) or not x.type.dtype.is_float:
        raise Unsupported(f"it takes {regions.type} of {x.type}")
    mode = site.one_of("mode", "avg", ("avg", "max"))
    has_offset = site.one_of("coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel"))
    cells = (int(site.attribute("output_height", 1)), int(site.attribute("output_width", 1)))
    wide, count = x.type.dtype.compute, regions.shape[0]
    moved = 0.5 if has_offset == "half_pixel" else 0.0
    scale = real(float(site.attribute("spatial_scale", 1.0)))
    stages: list[str] = []
    for dim, (name, extent) in enumerate(zip("hw", x.shape[2:], strict=True)):
        first, last = (
            f"{cast(f'R[r, {corner}]', regions.type.dtype, wide)} * {scale}" for corner in (1 - dim, 3 - dim)
        )
        length = f"({last} - {first})" if moved else f"max({last} - {first}, 1.0)"
        place = f"{first} - {moved} + {length} * (({wide}(p) + ({wide}(q) + 0.5) / {ratio}.0) / {cells[dim]}.0)"
        spots = ValueType(wide, (count, cells[dim], ratio))
        stages += [declared(f"P{name}", spots), f"P{name}[r, p, q] = {place}"]
        stages += _two_nearest(name, spots, ("r", "p", "q"), extent, beyond=1.0)
    named, extents = ("i64(B[r])", "Ih[r, h, i] + s", "Iw[r, w, j] + t"), (x.shape[0], *x.shape[2:])
    image, row, column = (f"clamp({n}, 0, {extent - 1})" for n, extent in zip(named, extents, strict=True))
    element = cast(at("A", (image, "c", row, column)), x.type.dtype, wide)
    term = f"Wh[r, h, i, s] * Ww[r, w, j, t] * {element}"
    reducer = "sum" if mode == "avg" else "max"
    shape = (count, x.shape[1], *cells)
    total = f"T[r, c, h, w] / {ratio * ratio}.0" if mode == "avg" else "T[r, c, h, w]"
    stages += [
        declared("T", ValueType(wide, shape)),
        f"T[r, c, h, w] = {reducer}[i < {ratio}, j < {ratio}, s < 2, t < 2]({term})",
        f"Y[r, c, h, w] = {cast(total, wide, x.type.dtype)}",
    ]
    return (site.single(stages, ValueType(x.type.dtype, shape), A=x, R=regions, B=batch),)


def _two_nearest(name: str, spots: ValueType, over: Sequence[str], extent: int, *, beyond: float) -> list[str]:
    """Stages that compute, of places `P...` along an axis, the first of two elements around each, and their weights.

    A place at most so much beyond the first or the last element is brought there; of others all weights are zero.
    """
    many = ValueType(spots.dtype, (*spots.shape, 2))
    place, left = at(f"P{name}", over), (*over, "s")
    held = f"min(max({place}, 0.0), {extent - 1}.0)"
    here = f"{place} >= {-beyond} and {place} <= {extent - 1 + beyond}"
    share = f"({held} - floor({held}))"
    return [
        declared(f"I{name}", ValueType(DType.I64, spots.shape)),
        f"{at(f'I{name}', over)} = i64({held})",
        declared(f"W{name}", many),
        f"{at(f'W{name}', left)} = ({share} if s == 1 else 1.0 - {share}) if {here} else 0.0",
    ]


@dataclass(frozen=True)
class _Filter:
    """Numbers of a filter along each axis, and of groups of channels."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    groups: int
    moved_groups: int


@node_type("DeformConv")
def deformable_convolution(site: NodeSite) -> Results:
    """A convolution, each of whose taps at each output is moved by an offset, and perhaps multiplied by a number."""
    x, w, offset, bias, mask = site.operand(0), site.operand(1), site.operand(2), site.optional(3), site.optional(4)
    own = _filter(site, x, w)
    dims, dtype = x.rank - 2, x.type.dtype
    batch, channels, *inputs = x.shape
    outputs = tuple(offset.shape[2:])
    taps = (batch, own.moved_groups, *own.kernel)
    if not dtype.is_float or offset.type.size != math.prod((*taps, dims, *outputs)):
        raise Unsupported(f"offsets of {offset.type} are not those of a filter of {own.kernel} over {x.type}")
    wide = dtype.compute
    steps, over = indices(dims, "k"), indices(dims, "h")
    here = ("n", "g", *steps, *over)
    spots = ValueType(wide, (*taps, *outputs))
    stages: list[str] = []
    for d, (step, place) in enumerate(zip(steps, over, strict=True)):
        begin = f"{place} * {own.strides[d]} - {own.pads[d]} + {step} * {own.dilations[d]}"
        moved = cast(at("O", ("n", "g", *steps, str(d), *over)), offset.type.dtype, wide)
        stages += [declared(f"P{d}", spots), f"{at(f'P{d}', here)} = {wide}({begin}) + {moved}"]
    sampled = ValueType(wide, (batch, channels, *own.kernel, *outputs))
    stages += [declared("S", sampled), _sampled(own, inputs, channels, mask is not None, dtype)]
    each, filters = channels // own.groups, w.shape[0]
    columns = at("S", ("n", f"o // {filters // own.groups} * {each} + c", *steps, *over))
    weight = cast(at("K", ("o", "c", *steps)), w.type.dtype, wide)
    left, type_ = ("n", "o", *over), ValueType(dtype, (batch, filters, *outputs))
    total = at("T", left) if bias is None else f"{at('T', left)} + {cast('B[o]', bias.type.dtype, wide)}"
    stages += [
        declared("T", ValueType(wide, type_.shape)),
        f"{at('T', left)} = sum[c < {each}, {ranged(steps, own.kernel)}]({weight} * {columns})",
        f"{at('Y', left)} = {cast(total, wide, dtype)}",
    ]
    offsets = site.view(offset, (*taps, dims, *outputs))
    masks = None if mask is None else site.view(mask, (*taps, *outputs))
    return (site.single(stages, type_, A=x, K=w, O=offsets, B=bias, M=masks),)


def _sampled(own: _Filter, inputs: Sequence[int], channels: int, masked: bool, dtype: DType) -> str:
    """The stage of what each tap reads: the sum of the nearest elements along all axes, those that are there."""
    dims, wide = len(inputs), dtype.compute
    steps, over, sides = indices(dims, "k"), indices(dims, "h"), indices(dims, "t")
    group = f"c // {channels // own.moved_groups}"
    places = [at(f"P{d}", ("n", group, *steps, *over)) for d in range(dims)]
    spots = [f"i64(floor({place})) + {side}" for place, side in zip(places, sides, strict=True)]
    inside = " and ".join(f"{spot} >= 0 and {spot} < {extent}" for spot, extent in zip(spots, inputs, strict=True))
    weights = [
        f"(1.0 - abs({place} - floor({place}) - {wide}({side})))" for place, side in zip(places, sides, strict=True)
    ]
    factor = f" * {cast(at('M', ('n', group, *steps, *over)), dtype, wide)}" if masked else ""
    element = cast(at("A", ("n", "c", *spots)), dtype, wide)
    term = f"{' * '.join(weights)} * {element}{factor}"
    return f"{at('S', ('n', 'c', *steps, *over))} = sum[{ranged(sides, (2,) * dims)} if {inside}]({term})"


def _filter(site: NodeSite, x: GraphValue, w: GraphValue) -> _Filter:
    dims = x.rank - 2
    if dims < 1 or w.rank != x.rank:
        raise Unsupported(f"{w.type} is no filter over {x.type}")
    strides, dilations = (tuple(site.attribute(name) or (1,) * dims) for name in ("strides", "dilations"))
    pads = tuple(site.attribute("pads") or (0,) * 2 * dims)
    groups, moved = (int(site.attribute(name, 1)) for name in ("group", "offset_group"))
    if x.shape[1] % groups or x.shape[1] % moved or w.shape[0] % groups or w.shape[1] * groups != x.shape[1]:
        raise Unsupported(f"{w.type} and {x.type} have no {groups} groups of channels, with offsets of {moved}")
    return _Filter(tuple(w.shape[2:]), strides, dilations, pads, groups, moved)
