"""Transposed convolutions of any number of spatial dimensions, with channels first.

Outputs at the same place between two inputs, their *phase*, meet the same elements of the filter: each phase is a
convolution of its own. Where vectors can run along channels of the result, and all phases are of one length and meet as
many elements, all of them are one sum without conditions; otherwise each output gathers the inputs that reach it. With
few channels, or groups of them, phases are summed apart, each along its rows, and put together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TypeAlias

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_types.convolutions import border_stage
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

# Channels of the result from which on vectors run along them: a vector of f32 with AVX-512. Of 16 channels gathering
# takes .65 to .96 of the time of phases apart in six convolutions of one to three dimensions, of 8 channels 6 to 23
# times as long in five of six; in four groups of 16 and of 32 channels 4 and 7 times (untuned, Emerald Rapids).
# Of one to eight channels all phases as one sum take 1.3 to 4 times as long as apart, in six convolutions (Zen 4).
_CHANNELS_IN_VECTORS = 16


@dataclass(frozen=True)
class _Axis:
    """A spatial dimension of a transposed convolution: `before` outputs are cut off ahead of the first that is kept.

    Input `x` and element `f` of the filter meet at output `stride * x + dilation * f - before`. So one of `common`
    outputs meets any, the greatest common divisor of stride and dilation. These are of `cycle` phases, and each phase
    meets every `cycle`-th element.
    """

    inputs: int
    kernel: int
    stride: int
    dilation: int
    before: int
    outputs: int

    @property
    def common(self) -> int:
        return gcd(self.stride, self.dilation)

    @property
    def cycle(self) -> int:
        """How many phases meet elements of the filter, if that is long enough."""
        return self.stride // self.common

    @property
    def skipped_outputs(self) -> int:
        """How many outputs there are ahead of the first phase that meets elements of the filter."""
        return -self.before % self.common

    @property
    def taps(self) -> int:
        """How many elements of the filter meet an output, at most."""
        return -(-self.kernel // self.cycle)

    @property
    def even_taps(self) -> bool:
        """Whether all phases that meet elements of the filter meet as many."""
        return self.kernel % self.cycle == 0

    @property
    def even_steps(self) -> bool:
        """Whether all phases are of one length."""
        return self.outputs % self.stride == 0

    @property
    def is_steady(self) -> bool:
        """Whether all phases are of one length and meet as many elements of the filter."""
        return self.common == 1 and self.even_taps and self.even_steps

    @property
    def steps(self) -> int:
        """How many outputs there are of each phase, at most."""
        return -(-self.outputs // self.stride)

    @property
    def border(self) -> tuple[int, int]:
        """Places ahead of the first input and behind the last one that outputs meet; less than none is a cut."""
        last = self.steps - 1 + (self._last_phase + self.before) // self.stride
        return self._back - self.before // self.stride, last - (self.inputs - 1)

    @property
    def _last_phase(self) -> int:
        return self.skipped_outputs + self.common * (self.cycle - 1)

    @property
    def _back(self) -> int:
        """How many places ahead of the one at its step an output meets inputs, at most."""
        return (self.taps - 1) * (self.dilation // self.common) + (self.cycle - 1) * self.dilation // self.stride

    def place(self, step: str, phase: str, tap: str) -> str:
        """Where in the bordered input an output meets an element of the filter."""
        text = step
        if self.stride > 1:
            terms = (
                [phase]
                if self.common == 1
                else [f"{phase} * {self.common}"] * (self.cycle > 1) + [f"{self.skipped_outputs}"]
            )
            text += f" + ({' + '.join(terms)} + {self.before}) // {self.stride} - {self.before // self.stride}"
        if self._back:
            text += f" + {self._back}"
        if self.cycle > 1 and self.dilation > 1:
            text += f" - {self._first_tap(phase)} * {self.dilation} // {self.stride}"
        return text if self.taps == 1 else f"{text} - {tap} * {self.dilation // self.common}"

    def locate_sum(self, step: str, phase: str) -> tuple[tuple[str, ...], str]:
        """Where the sum of an output lies, as its phase of those that have sums and its step, and which have sums."""
        if self.stride == 1:
            return (step,), ""
        met = f"({phase} + {self.before}) % {self.common} == 0" if self.common > 1 else ""
        summed = phase if self.common == 1 else f"{phase} // {self.common}"
        return (summed, step) if self.cycle > 1 else (step,), met

    def element(self, phase: str, tap: str) -> str:
        """The element of the filter."""
        first = "0" if self.taps == 1 else f"{self.cycle} * {tap}"
        return first if self.cycle == 1 else f"{first} + {self._first_tap(phase)}"

    def _first_tap(self, phase: str) -> str:
        """The first element of the filter that a phase meets."""
        inverse = pow(self.dilation // self.common, -1, self.cycle)
        shift = (self.skipped_outputs + self.before) // self.common * inverse % self.cycle
        # Written as short as can be: in the subscript it has to be what it is in the condition.
        scaled = phase if inverse == 1 else f"{phase} * {inverse}"
        shifted = f"({scaled} + {shift})" if shift else scaled
        return shifted if scaled is phase and not shift else f"{shifted} % {self.cycle}"


@dataclass(frozen=True)
class _Sum:
    """What is summed, and how it is read.

    Attributes:
        stages: those ahead of the sum.
        shape: of the sum.
        left: its indices.
        terms: its terms.
        factors: of each term, the data and the element of the filter.
        over: indices of the result.
        extents: of the result.
        read: the sum of an element of the result, where it is not at the same indices.
        met: the condition under which an element of the result has a sum, if there is one.
    """

    stages: tuple[str, ...]
    shape: tuple[int, ...]
    left: tuple[str, ...]
    terms: str
    factors: tuple[str, str]
    over: tuple[str, ...]
    extents: tuple[int, ...]
    read: tuple[str, ...]
    met: str = ""


_Way: TypeAlias = Callable[[GraphValue, GraphValue, tuple[_Axis, ...], int], _Sum]


@node_type("ConvTranspose")
def conv_transpose(site: NodeSite) -> Results:
    x, w, bias = site.operand(0), site.operand(1), site.optional(2)
    if x.rank < 3 or w.rank != x.rank:
        raise Unsupported(f"{x.type} and {w.type} have no spatial dimensions that go together")
    groups = int(site.attribute("group", 1))
    if w.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise Unsupported(f"{w.type} has not the channels of {x.type}")
    axes = _axes(site, x.shape[2:], w.shape[2:])
    made = _way(w, axes, groups)(x, w, axes, groups)
    wide, dtype = x.type.dtype.compute, x.type.dtype
    given, weight = (cast(factor, dtype, wide) for factor in made.factors)
    summed = at("T", made.read)
    if made.met:
        summed = f"({summed} if {made.met} else 0)"
    added = "" if bias is None else f" + {cast('B[o]', dtype, wide)}"
    stages = [
        *made.stages,
        declare_buffer("T", ValueType(wide, made.shape)),
        f"{at('T', made.left)} = sum[{made.terms}]({given} * {weight})",
        f"{at('Y', made.over)} = {cast(summed + added, wide, dtype)}",
    ]
    result = site.single(stages, ValueType(dtype, made.extents), A=x, W=w, B=bias)
    shape = (x.shape[0], w.shape[1] * groups, *(axis.outputs for axis in axes))
    return (result if result.shape == shape else site.view(result, shape),)


def _way(w: GraphValue, axes: tuple[_Axis, ...], groups: int) -> _Way:
    """How the sums are written."""
    if any(axis.before < 0 for axis in axes):
        return _sum_by_outputs
    if all(axis.is_steady for axis in axes) and w.shape[1] * groups >= _CHANNELS_IN_VECTORS:
        return _sum_by_phases
    return _sum_by_outputs if groups == 1 and w.shape[1] >= _CHANNELS_IN_VECTORS else _sum_phases_separately


def _sum_by_phases(x: GraphValue, w: GraphValue, axes: tuple[_Axis, ...], groups: int) -> _Sum:
    """A transposed convolution as one for each phase: an output is a step and, where the stride is more than one, a
    phase.
    """
    over, phases = (indices(len(axes), letter) for letter in "hp")
    left, shape = ["n", "o"], [x.shape[0], w.shape[1] * groups]
    for axis, step, phase in zip(axes, over, phases, strict=True):
        left.append(step)
        shape.append(axis.steps)
        if axis.stride > 1:
            left.append(phase)
            shape.append(axis.stride)
    stages, terms, factors = _convolve_phases(x, w, axes, groups)
    to, extents = tuple(left), tuple(shape)
    return _Sum(stages=stages, shape=extents, left=to, terms=terms, factors=factors, over=to, extents=extents, read=to)


def _sum_phases_separately(x: GraphValue, w: GraphValue, axes: tuple[_Axis, ...], groups: int) -> _Sum:
    """Sum each phase as a convolution whose results lie together, and are put in their places behind it."""
    steps, phases, outputs = (indices(len(axes), letter) for letter in "hpy")
    named = list(zip(axes, steps, phases, strict=True))
    ahead, shape = ("n", "o"), (x.shape[0], w.shape[1] * groups)
    cycled = [(axis.cycle, phase) for axis, _, phase in named if axis.cycle > 1]
    left = (*ahead, *(phase for _, phase in cycled), *steps)
    summed = (*shape, *(cycle for cycle, _ in cycled), *(axis.steps for axis in axes))
    over, extents, read_phases, read_steps, met = list(ahead), list(shape), [], [], []
    for (axis, step, phase), output in zip(named, outputs, strict=True):
        if axis.stride == 1:
            over.append(step)
            extents.append(axis.outputs)
        elif axis.even_steps:
            over += [step, phase]
            extents += [axis.steps, axis.stride]
        else:
            over.append(output)
            extents.append(axis.outputs)
            step, phase = f"{output} // {axis.stride}", f"{output} % {axis.stride}"
        (*of_cycle, of_steps), reached = axis.locate_sum(step, phase)
        read_phases += of_cycle
        read_steps.append(of_steps)
        met += [reached] * bool(reached)
    stages, terms, factors = _convolve_phases(x, w, axes, groups)
    read = (*ahead, *read_phases, *read_steps)
    return _Sum(
        stages=stages,
        shape=summed,
        left=left,
        terms=terms,
        factors=factors,
        over=tuple(over),
        extents=tuple(extents),
        read=read,
        met=" and ".join(met),
    )


def _convolve_phases(
    x: GraphValue, w: GraphValue, axes: tuple[_Axis, ...], groups: int
) -> tuple[tuple[str, ...], str, tuple[str, str]]:
    """The stages ahead of a sum over phases, its terms and their factors."""
    over, phases, inner = (indices(len(axes), letter) for letter in "hpr")
    stages, source = border_stage(x, tuple(axis.border for axis in axes), x.type.dtype)
    channel, own, terms = _channels(x, w, groups)
    terms += [f"{tap} < {axis.taps}" for axis, tap in zip(axes, inner, strict=True) if axis.taps > 1]
    named = list(zip(axes, over, phases, inner, strict=True))
    data = at(source, ("n", channel, *(axis.place(step, phase, tap) for axis, step, phase, tap in named)))
    elements = [axis.element(phase, tap) for axis, _, phase, tap in named]
    met = [f"{element} < {axis.kernel}" for axis, element in zip(axes, elements, strict=True) if not axis.even_taps]
    text = ", ".join(terms or ["c < 1"]) + (f" if {' and '.join(met)}" if met else "")
    return tuple(stages), text, (data, at("W", (channel, own, *elements)))


def _sum_by_outputs(x: GraphValue, w: GraphValue, axes: tuple[_Axis, ...], groups: int) -> _Sum:
    """A transposed convolution by its outputs: each sums the inputs that reach it, those at whole multiples of the
    stride.
    """
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
    left, text = ("n", "o", *over), f"{', '.join(terms)} if {' and '.join(met)}"
    return _Sum(stages=(), shape=shape, left=left, terms=text, factors=factors, over=left, extents=shape, read=left)


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
    before, outputs = _kept_extents(site, inputs, kernel, strides, dilations)
    return tuple(map(_Axis, inputs, kernel, strides, dilations, before, outputs))


def _kept_extents(
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
    auto = site.require_one_of("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
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
