"""Elements between those of a grid, at places that data says: regions of images."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, real
from metasched.graph.value_type import ValueType

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
    mode = site.require_one_of("mode", "avg", ("avg", "max"))
    has_offset = site.require_one_of(
        "coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel")
    )
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
        stages += [declare_buffer(f"P{name}", spots), f"P{name}[r, p, q] = {place}"]
        stages += _two_nearest(name, spots, ("r", "p", "q"), extent, beyond=1.0)
    named, extents = ("i64(B[r])", "Ih[r, h, i] + s", "Iw[r, w, j] + t"), (x.shape[0], *x.shape[2:])
    image, row, column = (f"clamp({n}, 0, {extent - 1})" for n, extent in zip(named, extents, strict=True))
    element = cast(at("A", (image, "c", row, column)), x.type.dtype, wide)
    term = f"Wh[r, h, i, s] * Ww[r, w, j, t] * {element}"
    reducer = "sum" if mode == "avg" else "max"
    shape = (count, x.shape[1], *cells)
    total = f"T[r, c, h, w] / {ratio * ratio}.0" if mode == "avg" else "T[r, c, h, w]"
    stages += [
        declare_buffer("T", ValueType(wide, shape)),
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
        declare_buffer(f"I{name}", ValueType(DType.I64, spots.shape)),
        f"{at(f'I{name}', over)} = i64({held})",
        declare_buffer(f"W{name}", many),
        f"{at(f'W{name}', left)} = ({share} if s == 1 else 1.0 - {share}) if {here} else 0.0",
    ]
