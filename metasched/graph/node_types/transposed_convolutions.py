"""Transposed convolutions of any number of spatial dimensions, with channels first.

Outputs at the same place between two inputs, their *phase*, meet the same elements of the filter: where the stride
divides the filter and the outputs, each phase is a convolution of its own, and all of them are one sum without
conditions. Otherwise each output gathers the inputs that reach it.
"""

from __future__ import annotations

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.node_types.convolutions import bordered
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declared, indices
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]


@dataclass(frozen=True)
class _Axis:
    """A spatial dimension of a transposed convolution: `before` outputs are cut off ahead of the first that is kept."""

    inputs: int
    kernel: int
    stride: int
    dilation: int
    before: int
    outputs: int

    @property
    def has_phases(self) -> bool:
        """Whether all phases are of one length and meet as many elements of the filter."""
        steady = self.stride == 1 or (self.dilation == 1 and self.kernel % self.stride == 0)
        return steady and self.outputs % self.stride == 0 and self.before >= 0

    @property
    def taps(self) -> int:
        """How many elements of the filter meet an output."""
        return self.kernel // self.stride

    @property
    def steps(self) -> int:
        """How many outputs there are of each phase."""
        return self.outputs // self.stride

    @property
    def border(self) -> tuple[int, int]:
        """Places ahead of the first input and behind the last one that outputs meet; less than none is a cut."""
        low = (self.taps - 1) * self.dilation - self.before // self.stride
        last = self.steps - 1 + (self.stride - 1 + self.before) // self.stride
        return low, last - (self.inputs - 1)

    def place(self, step: str, phase: str, tap: str) -> str:
        """Where in the bordered input an output meets an element of the filter."""
        last = (self.taps - 1) * self.dilation
        back = "" if self.taps == 1 else f" + {last} - {tap} * {self.dilation}"
        skipped = self.before // self.stride
        shift = "" if self.stride == 1 else f" + ({phase} + {self.before}) // {self.stride} - {skipped}"
        return f"{step}{shift}{back}"

    def element(self, phase: str, tap: str) -> str:
        """The element of the filter."""
        first = "0" if self.taps == 1 else f"{self.stride} * {tap}"
        return first if self.stride == 1 else f"{first} + ({phase} + {self.before}) % {self.stride}"


@dataclass(frozen=True)
class _Sum:
    """What is summed: its stages ahead, the shape and indices of the result, the terms and their product."""

    stages: tuple[str, ...]
    shape: tuple[int, ...]
    left: tuple[str, ...]
    terms: str
    factors: tuple[str, str]


@node_type("ConvTranspose")
def conv_transpose(site: NodeSite) -> Results:
    x, w, bias = site.operand(0), site.operand(1), site.optional(2)
    if x.rank < 3 or w.rank != x.rank:
        raise Unsupported(f"{x.type} and {w.type} have no spatial dimensions that go together")
    groups = int(site.attribute("group", 1))
    if w.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise Unsupported(f"{w.type} has not the channels of {x.type}")
    axes = _axes(site, x.shape[2:], w.shape[2:])
    made = (_by_phases if all(axis.has_phases for axis in axes) else _gathered)(x, w, axes, groups)
    wide, dtype = x.type.dtype.compute, x.type.dtype
    given, weight = (cast(factor, dtype, wide) for factor in made.factors)
    added = "" if bias is None else f" + {cast('B[o]', dtype, wide)}"
    stages = [
        *made.stages,
        declared("T", ValueType(wide, made.shape)),
        f"{at('T', made.left)} = sum[{made.terms}]({given} * {weight})",
        f"{at('Y', made.left)} = {cast(at('T', made.left) + added, wide, dtype)}",
    ]
    result = site.single(stages, ValueType(dtype, made.shape), A=x, W=w, B=bias)
    shape = (x.shape[0], w.shape[1] * groups, *(axis.outputs for axis in axes))
    return (result if result.shape == shape else site.view(result, shape),)


def _by_phases(x: GraphValue, w: GraphValue, axes: tuple[_Axis, ...], groups: int) -> _Sum:
    """Each phase is a convolution: an output is a step and, where the stride is more than one, a phase."""
    over, phases, inner = (indices(len(axes), letter) for letter in "hpr")
    left, shape = ["n", "o"], [x.shape[0], w.shape[1] * groups]
    for axis, step, phase in zip(axes, over, phases, strict=True):
        left.append(step)
        shape.append(axis.steps)
        if axis.stride > 1:
            left.append(phase)
            shape.append(axis.stride)
    stages, source = bordered(x, tuple(axis.border for axis in axes), x.type.dtype)
    channel, own, terms = _channels(x, w, groups)
    terms += [f"{tap} < {axis.taps}" for axis, tap in zip(axes, inner, strict=True) if axis.taps > 1]
    named = list(zip(axes, over, phases, inner, strict=True))
    data = at(source, ("n", channel, *(axis.place(step, phase, tap) for axis, step, phase, tap in named)))
    weight = at("W", (channel, own, *(axis.element(phase, tap) for axis, _, phase, tap in named)))
    return _Sum(tuple(stages), tuple(shape), tuple(left), ", ".join(terms or ["c < 1"]), (data, weight))


def _gathered(x: GraphValue, w: GraphValue, axes: tuple[_Axis, ...], groups: int) -> _Sum:
    """Each output sums the inputs that reach it: those at whole multiples of the stride."""
    over, inner = indices(len(axes), "h"), indices(len(axes), "r")
    met, places = [], []
    for axis, output, tap in zip(axes, over, inner, strict=True):
        offset = f"{output} + {axis.before} - {tap} * {axis.dilation}"
        place = offset if axis.stride == 1 else f"({offset}) // {axis.stride}"
        met += [f"{offset} >= 0", f"{place} < {axis.inputs}"]
        if axis.stride > 1:
            met.append(f"({offset}) % {axis.stride} == 0")
        places.append(place)
    channel, own, terms = _channels(x, w, groups)
    terms += [f"{tap} < {axis.kernel}" for axis, tap in zip(axes, inner, strict=True)]
    shape = (x.shape[0], w.shape[1] * groups, *(axis.outputs for axis in axes))
    factors = at("A", ("n", channel, *places)), at("W", (channel, own, *inner))
    return _Sum((), shape, ("n", "o", *over), f"{', '.join(terms)} if {' and '.join(met)}", factors)


def _channels(x: GraphValue, w: GraphValue, groups: int) -> tuple[str, str, list[str]]:
    """The channel of the data, the filter's own one of the output, and which channels are summed."""
    inputs, per_group = x.shape[1] // groups, w.shape[1]
    if groups == 1:
        return "c", "o", [f"c < {inputs}"]
    if inputs == per_group == 1:
        return "o", "0", []
    return f"o // {per_group} * {inputs} + c", f"o % {per_group}", [f"c < {inputs}"]


def _axes(site: NodeSite, inputs: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[_Axis, ...]:
    rank = len(inputs)
    strides = tuple(site.attribute("strides") or (1,) * rank)
    dilations = tuple(site.attribute("dilations") or (1,) * rank)
    before, outputs = _kept(site, inputs, kernel, strides, dilations)
    return tuple(map(_Axis, inputs, kernel, strides, dilations, before, outputs))


def _kept(
    site: NodeSite,
    inputs: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many outputs are cut off ahead, and how many are kept."""
    rank = len(inputs)
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
        return pads[:rank], tuple(n - pads[d] - pads[rank + d] for d, n in enumerate(whole))
    total = [n - o for n, o in zip(whole, outputs, strict=True)]
    return tuple(t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total), outputs
