"""Windows that slide over spatial dimensions, as convolutions and pools have them."""

from __future__ import annotations

from dataclasses import replace

from metasched.graph.errors import Unsupported
from metasched.graph.site import NodeSite
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial dimensions of an input, an entry a dimension.

    Attributes:
        inputs: extents of the input.
        kernel, strides, dilations: of the window.
        before, after: elements of the border.
        outputs: how many windows there are.

    """

    inputs: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def padded(self) -> bool:
        return any(self.before) or any(self.after)

    def place(self, dim: int, output: str, inner: str) -> str:
        """Where a window's element is in the input with its border, along a dimension."""
        stride, dilation = self.strides[dim], self.dilations[dim]
        first = output if stride == 1 else f"{stride}*{output}"
        if inner == "0":
            return first
        return f"{first} + {inner if dilation == 1 else f'{dilation}*{inner}'}"

    def inside_condition(self, dim: int, output: str, inner: str) -> str | None:
        """The condition that a window's element is no part of the border, along a dimension; None where it never is.

        Where there is a border behind, the condition says so even if no window reaches it, as one does at other sizes.
        """
        low, high = self.before[dim], self.inputs[dim] + self.before[dim]
        last = (self.outputs[dim] - 1) * self.strides[dim] + (self.kernel[dim] - 1) * self.dilations[dim]
        place = self.place(dim, output, inner)
        parts = [f"{place} >= {low}"] * (low > 0) + [f"{place} < {high}"] * (last >= high or self.after[dim] > 0)
        return " and ".join(parts) or None


def drop_border_taps(windows: Windows) -> tuple[Windows, tuple[range, ...]]:
    """Windows without the elements at their ends that are in the border wherever the window is; and what is left.

    A window whose dilation is as large as its input has such elements (the widest of atrous pyramids, say). The border
    is smaller then. Windows that are in the border as a whole stay as they are.
    """
    kept = tuple(_kept_taps(windows, dim) for dim in range(len(windows.inputs)))
    before, after = list(windows.before), list(windows.after)
    for dim, taps in enumerate(kept):
        if len(taps) < windows.kernel[dim]:
            before[dim] -= taps.start * windows.dilations[dim]
            last = (windows.outputs[dim] - 1) * windows.strides[dim] + (len(taps) - 1) * windows.dilations[dim]
            after[dim] = max(last + 1 - windows.inputs[dim] - before[dim], 0)
    kernel = tuple(len(taps) for taps in kept)
    return replace(windows, kernel=kernel, before=tuple(before), after=tuple(after)), kept


def _kept_taps(windows: Windows, dim: int) -> range:
    stride, dilation, low = windows.strides[dim], windows.dilations[dim], windows.before[dim]
    places = range(0, windows.outputs[dim] * stride, stride)
    inside = range(low, low + windows.inputs[dim])
    met = [tap for tap in range(windows.kernel[dim]) if any(at + tap * dilation in inside for at in places)]
    if not met:
        return range(windows.kernel[dim])
    return range(min(met[0], low // dilation), met[-1] + 1)


def windows_of(site: NodeSite, inputs: tuple[int, ...], kernel: tuple[int, ...]) -> Windows:
    """The windows that a node's attributes describe. Raises Unsupported for what there cannot be."""
    rank = len(inputs)
    strides = _entries(site, "strides", rank, 1)
    dilations = _entries(site, "dilations", rank, 1)
    if len(kernel) != rank or min((*kernel, *strides, *dilations), default=1) < 1:
        raise Unsupported(f"a window of {kernel}, strides {strides} and dilations {dilations} is none")
    spans = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    auto = site.require_one_of("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if auto.startswith("SAME"):
        outputs = tuple(-(-n // s) for n, s in zip(inputs, strides, strict=True))
        total = [max((o - 1) * s + span - n, 0) for o, s, span, n in zip(outputs, strides, spans, inputs, strict=True)]
        small, large = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
        return Windows(inputs, kernel, strides, dilations, before, after, outputs)
    pads = (0,) * (2 * rank) if auto == "VALID" else _entries(site, "pads", 2 * rank, 0)
    if min(pads, default=0) < 0:
        raise Unsupported(f"its pads {pads} are negative")
    before, after = pads[:rank], pads[rank:]
    outputs = tuple(
        _count(n + low + high - span, stride, n + low, ceil=site.flag("ceil_mode"))
        for n, low, high, span, stride in zip(inputs, before, after, spans, strides, strict=True)
    )
    if min(outputs, default=1) < 1:
        raise Unsupported(f"a window of {kernel} is larger than its input {inputs} with its border")
    return Windows(inputs, kernel, strides, dilations, before, after, outputs)


def _count(room: int, stride: int, begins_before: int, *, ceil: bool) -> int:
    """How many windows there are; a last one that is cut off counts with `ceil`, unless it begins in the border."""
    if not ceil:
        return max(room // stride + 1, 0)
    count = max(-(-room // stride) + 1, 0)
    return count - 1 if (count - 1) * stride >= begins_before else count


def _entries(site: NodeSite, name: str, count: int, default: int) -> tuple[int, ...]:
    given = site.attribute(name)
    if not given:
        return (default,) * count
    if len(given) != count:
        raise Unsupported(f"its `{name}` has {len(given)} entries, and {count} are needed")
    return tuple(int(n) for n in given)
