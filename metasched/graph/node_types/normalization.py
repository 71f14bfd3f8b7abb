"""Normalisations: by known statistics, or by those of the elements themselves."""

from __future__ import annotations

import math

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_types.reductions import kept_shape
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, index_ranges, indices, read, real
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]


@node_type("BatchNormalization")
def batch_normalization(site: NodeSite) -> Results:
    """A normalisation by given statistics of each channel; in training mode by those of the batch, as of standardised
    weights.
    """
    if site.flag("training_mode"):
        return _normalize_by_own_statistics(site)
    x, *statistics = site.operands
    over = indices(x.rank)
    wide, dtype = x.type.dtype.compute, x.type.dtype
    channel = over[1] if x.rank > 1 else "0"
    by_channel = zip("SBMV", statistics, strict=True)
    scale, bias, mean, variance = (cast(f"{name}[{channel}]", v.type.dtype, wide) for name, v in by_channel)
    root = f"sqrt({variance} + {real(site.attribute('epsilon', 1e-5))})"
    text = f"({cast(at('A', over), dtype, wide)} - {mean}) / {root} * {scale} + {bias}"
    stage = f"{at('Y', over)} = {cast(text, wide, dtype)}"
    return (site.single([stage], x.type, A=x, **dict(zip("SBMV", statistics, strict=True))),)


def _normalize_by_own_statistics(site: NodeSite) -> Results:
    """Channels normalised by their own statistics, and the given ones moved towards these."""
    x, scale, bias, *running = site.operands
    axes = tuple(dim for dim in range(x.rank) if dim != 1)
    wide, epsilon = x.type.dtype.compute, float(site.attribute("epsilon", 1e-5))
    own, count = _statistics(x, axes, epsilon, wide), math.prod(x.shape[axis] for axis in axes)
    results: list[GraphValue | None] = [_scale_by_channel(site, (x, scale, bias), own, axes)]
    means, squares = _means(x, axes, wide), _squares(x, axes, wide)
    factor = float(site.attribute("momentum", 0.9))
    kept = ["0" if dim in axes else "i0" for dim in range(x.rank)]
    moments = ((means, at("M", kept)), ([*means, *squares], f"{at('Q', kept)} / {count}.0"))
    for number_, (given, (stages, text)) in enumerate(zip(running, moments, strict=True)):
        moved = f"{cast('G[i0]', given.type.dtype, wide)} * {real(factor)} + {text} * {real(1 - factor)}"
        stages = [*stages, f"Y[i0] = {cast(moved, wide, given.type.dtype)}"]
        results.append(site.single(stages, given.type, A=x, G=given) if site.wants(number_ + 1) else None)
    return tuple(results)


def _scale_by_channel(
    site: NodeSite, operands: tuple[GraphValue, GraphValue, GraphValue], statistics: list[str], axes: tuple[int, ...]
) -> GraphValue:
    """Elements less their mean over their deviation along axes, times a factor and plus an offset of each channel."""
    x, scale, bias = operands
    over, wide, dtype = indices(x.rank), x.type.dtype.compute, x.type.dtype
    kept = ["0" if dim in axes else name for dim, name in enumerate(over)]
    normal = f"({cast(at('A', over), dtype, wide)} - {at('M', kept)}) * {at('R', kept)}"
    gain, offset = (cast(f"{name}[i1]", v.type.dtype, wide) for name, v in (("S", scale), ("B", bias)))
    stages = [*statistics, f"{at('Y', over)} = {cast(f'{normal} * {gain} + {offset}', wide, dtype)}"]
    return site.single(stages, x.type, A=x, S=scale, B=bias)


@node_type("InstanceNormalization")
def instance_normalization(site: NodeSite) -> Results:
    x, scale, bias = site.operands
    axes = tuple(range(2, x.rank))
    statistics = _statistics(x, axes, float(site.attribute("epsilon", 1e-5)), x.type.dtype.compute)
    return (_scale_by_channel(site, (x, scale, bias), statistics, axes),)


def _statistics(x: GraphValue, axes: tuple[int, ...], epsilon: float, wide: DType) -> list[str]:
    """Stages that compute the mean M and the reciprocal R of the deviation along axes."""
    over, type_ = indices(x.rank), ValueType(wide, kept_shape(x.shape, axes))
    count = math.prod(x.shape[axis] for axis in axes)
    return [
        *_means(x, axes, wide), *_squares(x, axes, wide),
        declare_buffer("R", type_), f"{at('R', over)} = 1.0 / sqrt({at('Q', over)} / {count}.0 + {real(epsilon)})",
    ]  # fmt: skip


def _means(x: GraphValue, axes: tuple[int, ...], wide: DType) -> list[str]:
    """Stages that compute the mean M along axes."""
    over, type_ = indices(x.rank), ValueType(wide, kept_shape(x.shape, axes))
    inner, ranges = _reduction_indices(x, axes)
    count = math.prod(x.shape[axis] for axis in axes)
    return [
        declare_buffer("T", type_), f"{at('T', over)} = sum[{ranges}]({cast(at('A', inner), x.type.dtype, wide)})",
        declare_buffer("M", type_), f"{at('M', over)} = {at('T', over)} / {count}.0",
    ]  # fmt: skip


def _squares(x: GraphValue, axes: tuple[int, ...], wide: DType) -> list[str]:
    """Stages that compute the sum Q of squared differences from the mean M along axes."""
    over, type_ = indices(x.rank), ValueType(wide, kept_shape(x.shape, axes))
    inner, ranges = _reduction_indices(x, axes)
    mean = at("M", ["0" if dim in axes else name for dim, name in enumerate(over)])
    difference = f"({cast(at('A', inner), x.type.dtype, wide)} - {mean})"
    return [declare_buffer("Q", type_), f"{at('Q', over)} = sum[{ranges}]({difference} * {difference})"]


def _reduction_indices(x: GraphValue, axes: tuple[int, ...]) -> tuple[list[str], str]:
    """The indices of an element that is reduced along axes, and the ranges of these."""
    inner = [f"r{dim}" if dim in axes else name for dim, name in enumerate(indices(x.rank))]
    return inner, index_ranges([f"r{axis}" for axis in axes], [x.shape[axis] for axis in axes])


@node_type("LayerNormalization")
def layer_normalization(site: NodeSite) -> Results:
    x, scale, bias = site.operand(0), site.operand(1), site.optional(2)
    first = site.axis(int(site.attribute("axis", -1)), x.rank)
    axes = tuple(range(first, x.rank))
    wide, dtype = x.type.dtype.compute, x.type.dtype
    stages = _statistics(x, axes, float(site.attribute("epsilon", 1e-5)), wide)
    over = indices(x.rank)
    kept = ["0" if dim in axes else name for dim, name in enumerate(over)]
    text = f"({cast(at('A', over), x.type.dtype, wide)} - {at('M', kept)}) * {at('R', kept)}"
    text += f" * {cast(read('S', scale.shape, over, x.shape), scale.type.dtype, wide)}"
    if bias is not None:
        text += f" + {cast(read('B', bias.shape, over, x.shape), bias.type.dtype, wide)}"
    stages.append(f"{at('Y', over)} = {cast(text, wide, dtype)}")
    statistics = ValueType(wide, kept_shape(x.shape, axes))
    outputs = {"Y": x.type} | {letter: statistics for number, letter in ((1, "M"), (2, "R")) if site.wants(number)}
    stages = [stage for stage in stages if not any(stage == declare_buffer(name, statistics) for name in outputs)]
    made = dict(zip(outputs, site.program(stages, outputs, A=x, S=scale, B=bias), strict=True))
    return (made["Y"], made.get("M"), made.get("R"))[: len(site.wanted)]


@node_type("RMSNormalization")
def rms_normalization(site: NodeSite) -> Results:
    x, scale = site.operand(0), site.operand(1)
    first = site.axis(int(site.attribute("axis", -1)), x.rank)
    axes = tuple(range(first, x.rank))
    wide, dtype = x.type.dtype.compute, x.type.dtype
    over, type_ = indices(x.rank), ValueType(wide, kept_shape(x.shape, axes))
    inner = [f"r{dim}" if dim in axes else name for dim, name in enumerate(over)]
    kept = ["0" if dim in axes else name for dim, name in enumerate(over)]
    ranges = index_ranges([f"r{axis}" for axis in axes], [x.shape[axis] for axis in axes])
    count = math.prod(x.shape[axis] for axis in axes)
    element, epsilon = cast(at("A", inner), x.type.dtype, wide), real(site.attribute("epsilon", 1e-5))
    factor = cast(read("S", scale.shape, over, x.shape), scale.type.dtype, wide)
    scaled = f"{cast(at('A', over), dtype, wide)} * {at('R', kept)} * {factor}"
    stages = [
        declare_buffer("Q", type_), f"{at('Q', over)} = sum[{ranges}]({element} * {element})",
        declare_buffer("R", type_), f"{at('R', over)} = 1.0 / sqrt({at('Q', over)} / {count}.0 + {epsilon})",
        f"{at('Y', over)} = {cast(scaled, wide, dtype)}",
    ]  # fmt: skip
    return (site.single(stages, x.type, A=x, S=scale),)


@node_type("LpNormalization")
def lp_normalization(site: NodeSite) -> Results:
    x, p = site.operand(0), int(site.attribute("p", 2))
    if p not in (1, 2):
        raise Unsupported(f"its `p` is {p}, and 1 and 2 are known")
    axis = site.axis(int(site.attribute("axis", -1)), x.rank)
    over, wide, dtype = indices(x.rank), x.type.dtype.compute, x.type.dtype
    inner = ["r0" if dim == axis else name for dim, name in enumerate(over)]
    kept = ["0" if dim == axis else name for dim, name in enumerate(over)]
    element, total = cast(at("A", inner), x.type.dtype, wide), at("T", kept)
    term = f"abs({element})" if p == 1 else f"{element} * {element}"
    length = total if p == 1 else f"sqrt({total})"
    stages = [
        declare_buffer("T", ValueType(wide, kept_shape(x.shape, (axis,)))),
        f"{at('T', over)} = sum[r0 < {x.shape[axis]}]({term})",
        # Where all elements are zero, so is what is made of them.
        f"{at('Y', over)} = {dtype}({cast(at('A', over), x.type.dtype, wide)} / {length} if {total} != 0.0 else 0.0)",
    ]
    return (site.single(stages, x.type, A=x),)


@node_type("LRN")
def local_response_normalization(site: NodeSite) -> Results:
    x, size = site.operand(0), int(site.require_attribute("size"))
    if x.rank < 2:
        raise Unsupported(f"{x.type} has no channels")
    alpha, beta, bias = (float(site.attribute(n, d)) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    over, low = indices(x.rank), (size - 1) // 2
    place = f"i1 + r0 - {low}"
    element = at("A", ("i0", place, *over[2:]))
    wide, dtype = x.type.dtype.compute, x.type.dtype
    inside = f"{place} >= 0 and {place} < {x.shape[1]}"
    root = f"pow({real(bias)} + {real(alpha / size)} * {at('T', over)}, {real(beta)})"
    stages = [
        declare_buffer("T", ValueType(wide, x.shape)),
        f"{at('T', over)} = sum[r0 < {size} if {inside}]({wide}({element}) * {wide}({element}))",
        f"{at('Y', over)} = {dtype}({cast(at('A', over), x.type.dtype, wide)} / {root})",
    ]
    return (site.single(stages, x.type, A=x),)
