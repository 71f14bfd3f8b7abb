"""The largest elements of regions of images, each cut into a fixed number of parts."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import declare_buffer, limits, real
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]


@node_type("MaxRoiPool")
def max_roi_pool(site: NodeSite) -> Results:
    """The largest element of each part of each region, which is an image's number and two corners; 0 of none."""
    x, regions = site.operand(0), site.operand(1)
    rows, columns = (int(n) for n in site.require_attribute("pooled_shape"))
    if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 5 or min(rows, columns) < 1:
        raise Unsupported(f"its inputs are {x.type} and {regions.type}, for {rows} by {columns} parts")
    images, channels, *extents = x.shape
    count, dtype = regions.shape[0], x.type.dtype
    scale, wide = float(site.attribute("spatial_scale", 1.0)), dtype.compute
    stages = [declare_buffer("B", ValueType(DType.I64, (count,))), "B[r] = i64(R[r, 0])"]
    inside = []
    for name, first, parts, extent in (("H", 2, rows, extents[0]), ("W", 1, columns, extents[1])):
        stages += _part_bounds(name, first, (count, parts, extent), scale, wide)
        index = name.lower()
        inside.append(f"{index} >= {name}1[r, p{index}] and {index} < {name}2[r, p{index}]")
    lowest = limits(dtype)[0]
    image = f"X[min(max(B[r], 0), {images - 1}), c, h, w]"
    met = " and ".join(inside)
    stages += [
        declare_buffer("M", ValueType(dtype, (count, channels, rows, columns))),
        f"M[r, c, ph, pw] = max[h < {extents[0]}, w < {extents[1]} if {met}]({image})",
        f"Y[r, c, ph, pw] = 0.0 if M[r, c, ph, pw] == {lowest} else M[r, c, ph, pw]",
    ]
    return (site.single(stages, ValueType(dtype, (count, channels, rows, columns)), X=x, R=regions),)


def _part_bounds(name: str, first: int, sizes: tuple[int, int, int], scale: float, wide: DType) -> list[str]:
    """Where each part of a region begins and ends along a dimension: `H1` and `H2`."""
    count, parts, extent = sizes
    # Halves are rounded away from zero.
    corner = f"floor({wide}(R[r, {{0}}]) * {real(scale)} + 0.5)"
    bounds = ValueType(DType.I64, (count, parts))
    region = ValueType(wide, (count,))
    index = f"p{name.lower()}"
    start, size = f"{name}S[r]", f"{name}Z[r]"
    stages = [
        declare_buffer(f"{name}S", region),
        f"{start} = {corner.format(first)}",
        declare_buffer(f"{name}Z", region),
        f"{size} = max({corner.format(first + 2)} - {start} + 1.0, 1.0) / {parts}.0",
    ]
    for number, text in ((1, f"floor({wide}({index}) * {size})"), (2, f"ceil({wide}({index} + 1) * {size})")):
        stages.append(declare_buffer(f"{name}{number}", bounds))
        stages.append(f"{name}{number}[r, {index}] = i64(min(max({text} + {start}, 0.0), {extent}.0))")
    return stages
