"""Images put together from overlapping blocks."""

from __future__ import annotations

import math

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, index_ranges, indices
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]


@node_type("Col2Im")
def column_to_image(site: NodeSite) -> Results:
    """Blocks put together to an image: each element is the sum of those of all blocks that lie on it."""
    x, image, block = site.operand(0), site.integers(1, "shape of the image"), site.integers(2, "shape of a block")
    dims = len(image)
    strides, dilations = (tuple(site.attribute(name) or (1,) * dims) for name in ("strides", "dilations"))
    pads = tuple(site.attribute("pads") or (0,) * 2 * dims)
    if not (len(block) == len(strides) == len(dilations) == dims and len(pads) == 2 * dims) or x.rank != 3:
        raise Unsupported(f"it puts {x.type} together in {dims} dimensions, of blocks of {len(block)}")
    counts = tuple(
        (size + pads[d] + pads[dims + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        for d, size in enumerate(image)
    )
    batch, rows, columns = x.shape
    channels = rows // math.prod(block)
    if channels * math.prod(block) != rows or math.prod(counts) != columns or min(counts) < 1:
        raise Unsupported(f"{x.type} is not {counts} blocks of {block}")
    over, within = indices(dims, "h"), indices(dims, "r")
    spots, conditions = [], []
    for d, (place, step) in enumerate(zip(over, within, strict=True)):
        # Where the block begins that has this place at its step, times the stride.
        begin = f"{place} + {pads[d]} - {step} * {dilations[d]}"
        spots.append(f"({begin}) // {strides[d]}")
        conditions += [f"{begin} >= 0", f"{begin} <= {(counts[d] - 1) * strides[d]}"]
        conditions += [f"({begin}) % {strides[d]} == 0"] if strides[d] > 1 else []
    dtype, wide = x.type.dtype, x.type.dtype.compute
    type_ = ValueType(dtype, (batch, channels, *image))
    blocks = site.view(x, (batch, channels, *block, *counts))
    read = at("A", ("n", "c", *within, *spots))
    total = f"sum[{index_ranges(within, block)} if {' and '.join(conditions)}]"
    left = ("n", "c", *over)
    if wide is dtype:
        return (site.single([f"{at('Y', left)} = {total}({read})"], type_, A=blocks),)
    stages = [
        declare_buffer("T", ValueType(wide, type_.shape)),
        f"{at('T', left)} = {total}({wide}({read}))",
        f"{at('Y', left)} = {dtype}({at('T', left)})",
    ]
    return (site.single(stages, type_, A=blocks),)
