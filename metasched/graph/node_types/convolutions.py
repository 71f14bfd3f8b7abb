"""Convolutions of any number of spatial dimensions, with channels first."""

from __future__ import annotations

from dataclasses import dataclass

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.node_types.matmul import centred
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declared, indices
from metasched.graph.windows import Windows, windows_of, without_border_taps

Results = tuple[GraphValue, ...]


@node_type("Conv")
def conv(site: NodeSite) -> Results:
    x, w, bias = site.operand(0), site.operand(1), site.optional(2)
    dtype = x.type.dtype
    return (convolved(site, x, w, bias, dtype.compute, dtype),)


def convolved(
    site: NodeSite, x: GraphValue, w: GraphValue, bias: GraphValue | None, wide: DType, result: DType
) -> GraphValue:
    """A convolution: the border is a stage, the products another, and the bias a third."""
    if x.rank < 3 or w.rank != x.rank:
        raise Unsupported(f"{x.type} and {w.type} have no spatial dimensions that go together")
    groups = int(site.attribute("group", 1))
    n, channels, *spatial = x.shape
    outputs, per_group, *kernel = w.shape
    if channels != per_group * groups or outputs % groups:
        raise Unsupported(f"{groups} groups of {per_group} channels do not make the {channels} of {x.type}")
    windows = windows_of(site, tuple(spatial), tuple(site.attribute("kernel_shape") or kernel))
    if windows.kernel != tuple(kernel):
        raise Unsupported(f"its `kernel_shape` {windows.kernel} is not that of {w.type}")
    windows, w = _without_border_taps(site, windows, w)
    kernel = list(windows.kernel)
    over = indices(len(spatial), "h")
    inner = [name if extent > 1 else "0" for name, extent in zip(indices(len(spatial), "r"), kernel, strict=True)]
    stages, source = _bordered(windows, x)
    places = [windows.place(dim, over[dim], inner[dim]) for dim in range(len(spatial))]
    within = [f"{name} < {extent}" for name, extent in zip(inner, kernel, strict=True) if extent > 1]
    if per_group == 1 and outputs == channels and within:
        channel, own, reduced = "o", "0", within
    else:
        channel = "c" if groups == 1 else f"o // {outputs // groups} * {per_group} + c"
        own, reduced = "c", [f"c < {per_group}", *within]
    left = (*("n", "o"), *over)
    given = cast(at(source, ("n", channel, *places)), x.type.dtype, wide)
    product = f"{given} * {cast(at('W', ('o', own, *inner)), w.type.dtype, wide)}"
    shape = (n, outputs, *windows.outputs)
    final = bias is None and result is wide
    target = "Y" if final else "T"
    if not final:
        stages.append(declared("T", ValueType(wide, shape)))
    stages.append(f"{at(target, left)} = sum[{', '.join(reduced)}]({product})")
    if not final:
        added = "" if bias is None else f" + {cast('B[o]', bias.type.dtype, wide)}"
        stages.append(f"{at('Y', left)} = {cast(at('T', left) + added, wide, result)}")
    return site.single(stages, ValueType(result, shape), A=x, W=w, B=bias)


def _without_border_taps(site: NodeSite, windows: Windows, w: GraphValue) -> tuple[Windows, GraphValue]:
    """The windows and the weights that meet data, where the weights are known."""
    fewer, kept = without_border_taps(windows)
    if w.constant is None or fewer.kernel == windows.kernel:
        return windows, w
    parts = tuple(slice(taps.start, taps.stop) for taps in kept)
    return fewer, site.constant(w.constant[(slice(None), slice(None), *parts)], w.type.dtype)


def _bordered(windows: Windows, x: GraphValue) -> tuple[list[str], str]:
    """The stage that puts zeros around the input, where there is a border, and the buffer to read."""
    if not windows.padded:
        return [], "A"
    over = indices(len(windows.inputs), "h")
    extents = [n + low + high for n, low, high in zip(windows.inputs, windows.before, windows.after, strict=True)]
    met, places = [], []
    for name, n, low, high in zip(over, windows.inputs, windows.before, windows.after, strict=True):
        places.append(f"{name} - {low}" if low else name)
        met += [f"{name} >= {low}"] * bool(low) + [f"{name} < {n + low}"] * bool(low or high)
    type_ = ValueType(x.type.dtype, (*x.shape[:2], *extents))
    read = at("A", ("n", "c", *places))
    return [declared("P", type_), f"{at('P', ('n', 'c', *over))} = {read} if {' and '.join(met)} else 0"], "P"


@node_type("ConvInteger")
def conv_integer(site: NodeSite) -> Results:
    x = centred(site, site.operand(0), site.optional(2), 1)
    w = centred(site, site.operand(1), site.optional(3), 0)
    return (convolved(site, x, w, None, DType.I32, DType.I32),)


@dataclass(frozen=True)
class _Transposed:
    """Sizes of a transposed convolution, an entry a spatial dimension."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    outputs: tuple[int, ...]


@node_type("ConvTranspose")
def conv_transpose(site: NodeSite) -> Results:
    """Each output gathers the inputs that reach it: those at whole multiples of the stride."""
    x, w, bias = site.operand(0), site.operand(1), site.optional(2)
    if x.rank < 3 or w.rank != x.rank:
        raise Unsupported(f"{x.type} and {w.type} have no spatial dimensions that go together")
    groups = int(site.attribute("group", 1))
    n, channels, *spatial = x.shape
    own_channels, per_group, *kernel = w.shape
    if own_channels != channels or channels % groups:
        raise Unsupported(f"{w.type} has not the channels of {x.type}")
    sizes = _transposed(site, tuple(spatial), tuple(kernel))
    over, inner = indices(len(spatial), "h"), indices(len(spatial), "r")
    met, places = [], []
    for dim, extent in enumerate(spatial):
        offset = f"{over[dim]} + {sizes.before[dim]} - {inner[dim]} * {sizes.dilations[dim]}"
        stride = sizes.strides[dim]
        place = offset if stride == 1 else f"({offset}) // {stride}"
        met += [f"{offset} >= 0", f"{place} < {extent}"]
        if stride > 1:
            met.append(f"({offset}) % {stride} == 0")
        places.append(place)
    inputs = channels // groups
    channel = "c" if groups == 1 else f"o // {per_group} * {inputs} + c"
    own = "o" if groups == 1 else f"o % {per_group}"
    wide, dtype = x.type.dtype.compute, x.type.dtype
    ranges = ", ".join(f"{name} < {extent}" for name, extent in zip(inner, kernel, strict=True))
    left = ("n", "o", *over)
    shape = (n, per_group * groups, *sizes.outputs)
    product = (
        f"{cast(at('A', ('n', channel, *places)), dtype, wide)} * {cast(at('W', (channel, own, *inner)), dtype, wide)}"
    )
    added = "" if bias is None else f" + {cast('B[o]', dtype, wide)}"
    stages = [
        declared("T", ValueType(wide, shape)),
        f"{at('T', left)} = sum[c < {inputs}, {ranges} if {' and '.join(met)}]({product})",
        f"{at('Y', left)} = {cast(at('T', left) + added, wide, dtype)}",
    ]
    return (site.single(stages, ValueType(dtype, shape), A=x, W=w, B=bias),)


def _transposed(site: NodeSite, inputs: tuple[int, ...], kernel: tuple[int, ...]) -> _Transposed:
    rank = len(inputs)
    strides = tuple(site.attribute("strides") or (1,) * rank)
    dilations = tuple(site.attribute("dilations") or (1,) * rank)
    more = tuple(site.attribute("output_padding") or (0,) * rank)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    whole = [s * (n - 1) + m + span for s, n, m, span in zip(strides, inputs, more, spans, strict=True)]
    auto = site.one_of("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    wanted = site.attribute("output_shape")
    if wanted:
        outputs = tuple(int(n) for n in wanted)[-rank:]
    elif auto.startswith("SAME"):
        outputs = tuple(n * s for n, s in zip(inputs, strides, strict=True))
    else:
        pads = tuple(site.attribute("pads") or (0,) * (2 * rank))
        outputs = tuple(n - pads[d] - pads[rank + d] for d, n in enumerate(whole))
        return _Transposed(kernel, strides, dilations, pads[:rank], outputs)
    total = [n - o for n, o in zip(whole, outputs, strict=True)]
    before = tuple(t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total)
    return _Transposed(kernel, strides, dilations, before, outputs)
