"""Convolutions of any number of spatial dimensions, with channels first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.windows import Windows, drop_border_taps, windows_of
from metasched.graph.node_types.matmul import subtract_zero_point
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, indices
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]


@node_type("Conv")
def conv(site: NodeSite) -> Results:
    x, w, bias = site.operand(0), site.operand(1), site.optional(2)
    dtype = x.type.dtype
    return (convolve(site, x, w, bias, dtype.compute, dtype),)


def convolve(
    site: NodeSite, x: GraphValue, w: GraphValue, bias: GraphValue | None, wide: DType, result: DType
) -> GraphValue:
    """A convolution: the border is a stage, the products another, and the bias a third."""
    groups = int(site.attribute("group", 1))
    _require_fit(x, w, groups)
    windows, w = _drop_border_taps(site, _windows(site, x, w), w)
    stages, source = border_stage(
        x, tuple(zip(windows.before, windows.after, strict=True)), _border_copy_type(x.type.dtype)
    )
    read = x.type.dtype
    if stages:
        read, w = _border_copy_type(read), _widen_weights(site, w)

    def element(channel: str, places: Sequence[str]) -> str:
        return cast(at(source, ("n", channel, *places)), read, wide)

    products = _sum_of_products(element, w, windows, groups, wide)
    type_ = ValueType(result, (x.shape[0], w.shape[0], *windows.outputs))
    left = ("n", "o", *indices(len(windows.outputs), "h"))
    if bias is None and result is wide:
        stages.append(f"{at('Y', left)} = {products}")
    else:
        added = "" if bias is None else f" + {cast('B[o]', bias.type.dtype, wide)}"
        stages.append(declare_buffer("T", ValueType(wide, type_.shape)))
        stages.append(f"{at('T', left)} = {products}")
        stages.append(f"{at('Y', left)} = {cast(at('T', left) + added, wide, result)}")
    return site.single(stages, type_, A=x, W=w, B=bias)


def _require_fit(x: GraphValue, w: GraphValue, groups: int) -> None:
    """Raises Unsupported for weights of other channels than the data, or other dimensions."""
    if x.rank < 3 or w.rank != x.rank:
        raise Unsupported(f"{x.type} and {w.type} have no spatial dimensions that go together")
    outputs, per_group = w.shape[:2]
    if x.shape[1] != per_group * groups:
        raise Unsupported(f"{groups} groups of {per_group} channels do not make the {x.shape[1]} of {x.type}")
    if outputs % groups:
        raise Unsupported(f"the {outputs} filters of {w.type} do not go into {groups} groups")


def _windows(site: NodeSite, x: GraphValue, w: GraphValue) -> Windows:
    """The windows, as large as the weights. Raises Unsupported where the node says that they are not."""
    kernel = w.shape[2:]
    windows = windows_of(site, x.shape[2:], tuple(site.attribute("kernel_shape") or kernel))
    if windows.kernel != kernel:
        raise Unsupported(f"its `kernel_shape` {windows.kernel} is not that of {w.type}")
    return windows


def _sum_of_products(
    element: Callable[[str, Sequence[str]], str], w: GraphValue, windows: Windows, groups: int, wide: DType
) -> str:
    """A reduction over weights and elements of the data: `element` reads one at a channel and a place."""
    outputs, per_group, *kernel = w.shape
    over = indices(len(kernel), "h")
    inner = [name if extent > 1 else "0" for name, extent in zip(indices(len(kernel), "r"), kernel, strict=True)]
    places = [windows.place(dim, over[dim], inner[dim]) for dim in range(len(kernel))]
    within = [f"{name} < {extent}" for name, extent in zip(inner, kernel, strict=True) if extent > 1]
    if per_group == 1 and outputs == groups and within:
        channel, own, reduced = "o", "0", within
    else:
        channel = "c" if groups == 1 else f"o // {outputs // groups} * {per_group} + c"
        own, reduced = "c", [f"c < {per_group}", *within]
    product = f"{element(channel, places)} * {cast(at('W', ('o', own, *inner)), w.type.dtype, wide)}"
    return f"sum[{', '.join(reduced)}]({product})"


def _border_copy_type(dtype: DType) -> DType:
    """The type of a copy with a border: f32 instead of f16, as an element meets many others, and no instruction
    multiplies f16 and sums in f32."""
    return dtype.compute if dtype is DType.F16 else dtype


def _widen_weights(site: NodeSite, w: GraphValue) -> GraphValue:
    """Weights in the type in which they meet such a copy, where they are known."""
    dtype = _border_copy_type(w.type.dtype)
    if w.constant is None or dtype is w.type.dtype:
        return w
    return site.constant(w.constant.astype(dtype.numpy), dtype)


def _drop_border_taps(site: NodeSite, windows: Windows, w: GraphValue) -> tuple[Windows, GraphValue]:
    """The windows and the weights that meet data, where the weights are known."""
    fewer, kept = drop_border_taps(windows)
    if w.constant is None or fewer.kernel == windows.kernel:
        return windows, w
    parts = tuple(slice(taps.start, taps.stop) for taps in kept)
    return fewer, site.constant(w.constant[(slice(None), slice(None), *parts)], w.type.dtype)


def border_stage(x: GraphValue, border: tuple[tuple[int, int], ...], dtype: DType) -> tuple[list[str], str]:
    """The stage that puts zeros around the input, where there is a border, and the buffer to read.

    `border` has the places ahead and behind of each spatial dimension; less than none cuts data off. `dtype` is the
    type of what the stage stores.
    """
    if not any(low or high for low, high in border):
        return [], "A"
    over, inputs = indices(len(border), "h"), x.shape[2:]
    met, places = [], []
    for name, n, (low, high) in zip(over, inputs, border, strict=True):
        places.append(name if low == 0 else f"{name} - {low}" if low > 0 else f"{name} + {-low}")
        met += [f"{name} >= {low}"] * (low > 0) + [f"{name} < {n + low}"] * (low > 0 or high > 0)
    extents = [n + low + high for n, (low, high) in zip(inputs, border, strict=True)]
    type_ = ValueType(dtype, (*x.shape[:2], *extents))
    read = cast(at("A", ("n", "c", *places)), x.type.dtype, dtype)
    text = f"{read} if {' and '.join(met)} else 0" if met else read
    return [declare_buffer("P", type_), f"{at('P', ('n', 'c', *over))} = {text}"], "P"


@node_type("ConvInteger")
def conv_integer(site: NodeSite) -> Results:
    x = subtract_zero_point(site, site.operand(0), site.optional(2), 1)
    w = subtract_zero_point(site, site.operand(1), site.optional(3), 0)
    return (convolve(site, x, w, None, DType.I32, DType.I32),)
