"""Pools: one number for each window, or for each channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.windows import Windows, windows_of
from metasched.graph.node_types.gathering import is_inside
from metasched.graph.node_types.padding import pad_tensor
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, index_ranges, indices, number
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

# Of how many elements at most windows are reduced one dimension after another, of those of all at once; and where
# windows are apart, as what is between the dimensions is written and read for few of them.
_FEWER, _FEWER_APART = 0.7, 0.65


def _windows(site: NodeSite, x: GraphValue) -> Windows:
    if x.rank < 3:
        raise Unsupported(f"{x.type} has no spatial dimensions")
    return windows_of(site, x.shape[2:], tuple(int(n) for n in site.require_attribute("kernel_shape")))


def _places(windows: Windows) -> tuple[list[str], list[str | None]]:
    """Along each dimension where a window's elements are in the input, and the condition to be inside, if any."""
    rank = len(windows.inputs)
    over, inner = indices(rank, "h"), indices(rank, "r")
    places, met = [], []
    for dim in range(rank):
        place = windows.place(dim, over[dim], inner[dim])
        places.append(f"{place} - {windows.before[dim]}" if windows.before[dim] else place)
        met.append(windows.inside_condition(dim, over[dim], inner[dim]))
    return places, met


def _parts(windows: Windows) -> tuple[list[str], str, str]:
    """Where a window's elements are in the input, the ranges within the window, and the condition to be inside."""
    places, conditions = _places(windows)
    met = [text for text in conditions if text]
    inner = indices(len(windows.inputs), "r")
    return places, index_ranges(inner, windows.kernel), f" if {' and '.join(met)}" if met else ""


@node_type("MaxPool")
def max_pool(site: NodeSite) -> Results:
    x = site.operand(0)
    windows = _windows(site, x)
    type_ = ValueType(x.type.dtype, (*x.shape[:2], *windows.outputs))
    if site.wants(1):
        return _pool_with_positions(site, x, windows, type_)
    return (site.single(_reductions("max", windows, x, type_, "Y", _plain), type_, A=x),)


def _plain(element: str) -> str:
    return element


def _reductions(
    reducer: str, windows: Windows, x: GraphValue, type_: ValueType, left: str, term: Callable[[str], str]
) -> list[str]:
    """Stages that reduce what `term` makes of the elements of windows of the input A, to a buffer `left` of a type."""
    if _saves_much(windows):
        return _stages_by_dimension(reducer, windows, type_, x.shape[2:], left, term)
    places, ranges, met = _parts(windows)
    over = indices(len(windows.inputs), "h")
    return [f"{at(left, ('n', 'c', *over))} = {reducer}[{ranges}{met}]({term(at('A', ('n', 'c', *places)))})"]


def _saves_much(windows: Windows) -> bool:
    """Whether reductions of windows along a dimension, and of these along the next, are of far fewer elements."""
    # Elements that vectors take far apart along the last dimension are as many loads as they are apart.
    apart = [*(1 for _ in windows.strides[1:]), windows.strides[-1]]
    left, read = list(windows.inputs), 0
    for dim in range(len(left)):
        left[dim] = windows.outputs[dim]
        read += math.prod(left) * windows.kernel[dim] * apart[dim]
    share = _FEWER if all(stride == 1 for stride in windows.strides) else _FEWER_APART
    return read < share * math.prod(windows.outputs) * math.prod(windows.kernel) * apart[-1]


def _stages_by_dimension(
    reducer: str,
    windows: Windows,
    type_: ValueType,
    inputs: tuple[int, ...],
    result: str,
    term: Callable[[str], str],
    shares: Sequence[str] = (),
) -> list[str]:
    """Stages that reduce windows along the first dimension, then what they are along the next: vectors begin where
    those of the input do, until the last stage. Terms along a dimension are multiplied by its share, if there are any.
    """
    rank = len(inputs)
    over, shape = indices(rank, "h"), list(inputs)
    places, conditions = _places(windows)
    stages, source = list[str](), "A"
    for dim in range(rank):
        shape[dim] = windows.outputs[dim]
        target = f"{result}{dim}" if dim < rank - 1 else result
        element = at(source, ("n", "c", *(places[dim] if d == dim else name for d, name in enumerate(over))))
        met = f" if {conditions[dim]}" if conditions[dim] else ""
        if dim < rank - 1:
            stages.append(declare_buffer(target, ValueType(type_.dtype, (*type_.shape[:2], *shape))))
        left = at(target, ("n", "c", *over))
        read = term(element) if source == "A" else element
        if shares and shares[dim]:
            read = f"{read} * {shares[dim]}"
        stages.append(f"{left} = {reducer}[{index_ranges([f'r{dim}'], [windows.kernel[dim]])}{met}]({read})")
        source = target
    return stages


def _pool_with_positions(site: NodeSite, x: GraphValue, windows: Windows, type_: ValueType) -> Results:
    """The largest element of each window and where it is in the input, counted over all of it."""
    if not x.type.dtype.is_float:
        raise Unsupported(f"positions are found in floats, and its input is {x.type}")
    places, ranges, _ = _parts(windows)
    rank = len(windows.inputs)
    over, inner = indices(rank, "h"), indices(rank, "r")
    met = [f"{place} >= 0 and {place} < {extent}" for place, extent in zip(places, windows.inputs, strict=True)]
    full = ValueType(x.type.dtype, (*type_.shape, *windows.kernel))
    steps = [math.prod(windows.kernel[dim + 1 :]) for dim in range(rank)]
    left, element = at("Q", ("n", "c", *over)), at("W", ("n", "c", *over, *inner))
    # In a window of -inf alone all are equal, its border too: the first that is no border is meant.
    first = [_first_inside(windows, dim, name) for dim, name in enumerate(over)]
    found = [
        f"max({left} // {step} % {extent}, {least})" if least else f"({left} // {step} % {extent})"
        for step, extent, least in zip(steps, windows.kernel, first, strict=True)
    ]
    order = range(rank) if not site.flag("storage_order") else reversed(range(rank))
    position = "0"
    for dim in order:
        position = f"({position}) * {windows.inputs[dim]} + ({places[dim].replace(inner[dim], found[dim])})"
    area = math.prod(windows.inputs)
    stages = [
        declare_buffer("W", full),
        f"{element} = {at('A', ('n', 'c', *places))} if {' and '.join(met)} else -inf",
        declare_buffer("Q", ValueType(DType.I64, type_.shape)),
        f"{at('Y', ('n', 'c', *over))}, {left} = argmax[{ranges}]({element})",
        f"{at('I', ('n', 'c', *over))} = (n * {x.shape[1]} + c) * {area} + {position}",
    ]
    return site.program(stages, {"Y": type_, "I": ValueType(DType.I64, type_.shape)}, A=x)


def _first_inside(windows: Windows, dim: int, over: str) -> str:
    """The first element of a window along a dimension that is in the input; '' where that is its first."""
    before, dilation = windows.before[dim], windows.dilations[dim]
    return f"({before + dilation - 1} - {over} * {windows.strides[dim]}) // {dilation}" if before else ""


@node_type("AveragePool", "LpPool")
def average_pool(site: NodeSite) -> Results:
    x = site.operand(0)
    windows = _windows(site, x)
    dtype, wide = x.type.dtype, x.type.dtype.compute
    type_ = ValueType(wide, (*x.shape[:2], *windows.outputs))
    left = ("n", "c", *indices(len(windows.inputs), "h"))
    total, p = at("T", left), int(site.attribute("p", 2))

    def term(element: str) -> str:
        element = cast(element, dtype, wide)
        return _norm(element, p) if site.op == "LpPool" else element

    if site.op == "LpPool":
        stages, result = _reductions("sum", windows, x, type_, "T", term), _root(total, p)
    else:
        counts = _counts(windows, padding_counts=site.flag("count_include_pad"))
        if _saves_much(windows):
            shares = _shares(windows, counts, wide)
            stages = _stages_by_dimension("sum", windows, type_, x.shape[2:], "T", term, shares)
            result = total
        else:
            stages = _reductions("sum", windows, x, type_, "T", term)
            result = f"{total} / {_count(windows, counts, wide)}"
    if result == total and dtype is wide:
        stages[-1] = stages[-1].replace("T[", "Y[", 1)
    else:
        stages = [declare_buffer("T", type_), *stages, f"{at('Y', left)} = {cast(result, wide, dtype)}"]
    return (site.single(stages, ValueType(dtype, type_.shape), A=x),)


def _norm(element: str, p: int) -> str:
    return f"{element} * {element}" if p == 2 else f"abs({element})" if p == 1 else f"pow(abs({element}), {p}.0)"


def _root(total: str, p: int) -> str:
    return f"sqrt({total})" if p == 2 else total if p == 1 else f"pow({total}, {1 / p!r})"


def _counts(windows: Windows, *, padding_counts: bool) -> list[str | None]:
    """Of how many elements windows are along each dimension, as `_count_along` says it."""
    found = []
    for dim, (before, extent, after) in enumerate(zip(windows.before, windows.inputs, windows.after, strict=True)):
        low, size = (0, before + extent + after) if padding_counts else (before, extent)
        found.append(_count_along(windows, dim, low, size))
    return found


def _count(windows: Windows, counts: Sequence[str | None], dtype: DType) -> str:
    """How many elements a window's mean is of, as a float of a type: a number, or an expression of its place where
    windows differ.

    Each dimension's is a float of its own, and their product as exact: a product of 64-bit integers takes longer.
    """
    factors = [f"{dtype}({count})" for count in counts if count is not None]
    constant = math.prod(extent for extent, count in zip(windows.kernel, counts, strict=True) if count is None)
    if constant > 1 or not factors:
        factors.append(f"{constant}.0")
    return f"({' * '.join(factors)})"


def _shares(windows: Windows, counts: Sequence[str | None], dtype: DType) -> list[str]:
    """What terms along each dimension are multiplied by, so that their sums are means; '' where that is nothing."""
    shares = [f"(1.0 / {dtype}({count}))" if count is not None else "" for count in counts]
    constant = math.prod(extent for extent, count in zip(windows.kernel, counts, strict=True) if count is None)
    if constant > 1:
        shares[-1] = " * ".join([*([shares[-1]] if shares[-1] else []), repr(1.0 / constant)])
    return shares


def _count_along(windows: Windows, dim: int, low: int, size: int) -> str | None:
    """Of how many elements windows are along a dimension, of `size` and `low` not counted before them; None where they
    have all of the kernel's."""
    stride, dilation, kernel = windows.strides[dim], windows.dilations[dim], windows.kernel[dim]
    last = (windows.outputs[dim] - 1) * stride - low + (kernel - 1) * dilation
    if low == 0 and last < size:
        return None
    start = f"h{dim} * {stride}" if stride > 1 else f"h{dim}"
    left = f"{size + low} - {start}"
    after = f"min({left if dilation == 1 else f'({left} + {dilation - 1}) // {dilation}'}, {kernel})"
    if not low:
        return after
    before = f"max({low} - {start}, 0)"
    return f"{after} - {before if dilation == 1 else f'({before} + {dilation - 1}) // {dilation}'}"


@node_type("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(site: NodeSite) -> Results:
    x = site.operand(0)
    if x.rank < 3:
        raise Unsupported(f"{x.type} has no spatial dimensions")
    rank = x.rank - 2
    inner, left = indices(rank, "r"), ("n", "c", *indices(rank, "h"))
    ranges, shape = index_ranges(inner, x.shape[2:]), (*x.shape[:2], *(1,) * rank)
    dtype, wide = x.type.dtype, x.type.dtype.compute
    element = at("A", ("n", "c", *inner))
    if site.op == "GlobalMaxPool":
        return (site.single([f"{at('Y', left)} = max[{ranges}]({element})"], ValueType(dtype, shape), A=x),)
    element, total = cast(element, dtype, wide), at("T", left)
    if site.op == "GlobalLpPool":
        p = int(site.attribute("p", 2))
        element, result = _norm(element, p), _root(total, p)
    else:
        result = f"{total} / {math.prod(x.shape[2:])}.0"
    stages = [
        declare_buffer("T", ValueType(wide, shape)),
        f"{total} = sum[{ranges}]({element})",
        f"{at('Y', left)} = {cast(result, wide, dtype)}",
    ]
    return (site.single(stages, ValueType(dtype, shape), A=x),)


@node_type("MaxUnpool")
def max_unpool(site: NodeSite) -> Results:
    """The elements at the positions that are given, zeros elsewhere: each output looks for the last element whose
    position is its own, as windows that overlap may have found the same one.
    """
    x, index = site.operand(0), site.operand(1)
    kernel = tuple(int(n) for n in site.require_attribute("kernel_shape"))
    rank = x.rank - 2
    strides = tuple(site.attribute("strides") or (1,) * rank)
    pads = tuple(site.attribute("pads") or (0,) * (2 * rank))
    inferred = tuple(
        (n - 1) * s - pads[d] - pads[rank + d] + kernel[d]
        for d, (n, s) in enumerate(zip(x.shape[2:], strides, strict=True))
    )
    shape = (*x.shape[:2], *inferred)
    given = site.integers(2, "output shape") if site.optional(2) is not None else shape
    places = math.prod(inferred)
    count = math.prod(x.shape[2:])
    flat, spots = (site.view(t, (*x.shape[:2], count)) for t in (x, index))
    zero = number(0, x.type.dtype)
    channel = f"(i0 * {x.shape[1]} + i1) * {places} + i2"
    over, whole = "i0, i1, i2", (*x.shape[:2], places)
    stages = [
        declare_buffer("L", ValueType(DType.I64, whole)),
        f"L[{over}] = max[r0 < {count} if I[i0, i1, r0] == {channel}](r0)",
        f"Y[{over}] = A[i0, i1, L[{over}]] if {is_inside(f'L[{over}]', count)} else {zero}",
    ]
    made = site.view(site.single(stages, ValueType(x.type.dtype, whole), A=flat, I=spots), shape)
    # Positions count in the shape that the kernel gives; a larger one has zeros after it.
    borders = {dim: (0, int(n) - have) for dim, (n, have) in enumerate(zip(given, shape, strict=True))}
    if any(after < 0 for _, after in borders.values()):
        raise Unsupported(f"its output shape {tuple(given)} is smaller than {shape}, which its kernel gives")
    return (pad_tensor(site, made, borders, None),)
