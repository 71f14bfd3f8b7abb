"""Values that are sums of another's elements in a window around each place, times constants: convolutions, and scales.

Two such sums over windows of one value are one, whose constants are added up: of a convolution of 3 x 3, one of 1 x 1,
and a batch norm, as networks are trained that are one convolution in use (Ding et al. 2021, arXiv 2101.03697).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.affine import Affine, affine_form
from metasched.graph.fusion.expressions import conjuncts, names_in, substitute_names
from metasched.graph.fusion.indices import IndexSum, linear_form
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.graph.ir import Array
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import FloatLit, IfElse, IntLit, Name, Operation, Read, Reduce, SourceExpr, Stage
from metasched.support.data_classes import dataclass

# A place of a window: of each dimension of the data, how far it is from the result's index times the stride.
Place = tuple[int, ...]
# The numbers that an expression over constants has along some indices, in their order.
Evaluate = Callable[[SourceExpr, Mapping[str, int]], Array]


@dataclass(frozen=True)
class Filter:
    """Where weights have the numbers of each place of a window.

    Attributes:
        weights: the input that they are.
        subscripts: of each place, its part of the weights: numbers, and slices along channels.
        results_first: whether that part is of results by channels of the data; otherwise it is the other way round.

    """

    weights: str
    subscripts: Mapping[Place, tuple[int | slice, ...]]
    results_first: bool


@dataclass(frozen=True)
class Window:
    """A value that is a sum over a window of another, and an offset.

    Attributes:
        data: what it is a sum of: an input of a program, or a value of a graph.
        type: of the result; the data have as many dimensions.
        strides: what the result's indices are multiplied by, for each dimension.
        channel: the dimension that constants go along; None where all are single numbers.
        places: what the data are multiplied by at each place: a number, an array over channels each of which is its own
            result, or one of results by channels of the data.
        offset: what is added: a number, or an array over channels.
        filter: where the numbers have their places in weights.

    """

    data: str
    type: ValueType
    strides: tuple[int, ...]
    channel: int | None
    places: Mapping[Place, Array]
    offset: Array
    filter: Filter | None = None

    @property
    def mixes_channels(self) -> bool:
        """Whether a result is a sum over channels, too."""
        return any(numbers.ndim == 2 for numbers in self.places.values())


def whole_value(name: str, type_: ValueType) -> Window:
    """A value as a sum of one term: itself."""
    ones, zero = np.ones((), np.float32), np.zeros((), np.float32)
    strides = tuple(int(extent > 1) for extent in type_.shape)
    return Window(name, type_, strides, None, {(0,) * type_.rank: ones}, zero)


def window_of(stages: Stages, evaluate: Evaluate) -> Window | None:
    """What a program of floats of 32 bits computes, as a sum over a window; None where it is none.

    `evaluate` gives the numbers of expressions over its constants. The program is canonical.
    """
    if len(stages.outputs) != 1 or any(type_.dtype is not DType.F32 for type_ in stages.types.values()):
        return None
    return _Reading(stages, evaluate).window()


class _Reading:
    """A program that is being read; indices that are always 0 are written so."""

    def __init__(self, stages: Stages, evaluate: Evaluate) -> None:
        self._stages = stages
        self._evaluate = evaluate
        self._by_buffer = {stage.buffer: _without_units(stages, stage) for stage in stages.stages}
        self._last = self._by_buffer[stages.outputs[0]]
        self._type = stages.types[stages.outputs[0]]

    def window(self) -> Window | None:
        found = Affine(self._last.value)
        if not isinstance(self._last.value, Reduce):
            found = affine_form(self._last.value, lambda read: read.buffer in self._stages.consts)
        inner = found.value
        if isinstance(inner, Read) and self._is_whole(inner):
            inner = self._by_buffer[inner.buffer].value
        if isinstance(inner, Reduce) and found.factor is None:
            return self._sum_of_terms(inner, found.offset)
        return self._one_term(inner, found) if isinstance(inner, Read) else None

    def _is_whole(self, read: Read) -> bool:
        """Whether a read is of a sum at the result's own indices."""
        stage = self._by_buffer.get(read.buffer)
        return (
            stage is not None
            and isinstance(stage.value, Reduce)
            and [axis.name for axis in stage.axes] == [axis.name for axis in self._last.axes]
            and all(index in (Name(axis.name), IntLit(0)) for axis, index in zip(stage.axes, read.indices, strict=True))
        )

    def _one_term(self, read: Read, found: Affine) -> Window | None:
        """An element times a number, plus another."""
        dims = self._dimensions(read)
        if dims is None or len(self._stages.stages) != 1 + (read.buffer in self._by_buffer):
            return None
        data, forms = dims
        factor, offset = found.factor or FloatLit(1.0), found.offset or FloatLit(0.0)
        axes = {axis.name: d for d, axis in enumerate(self._last.axes)}
        along = names_in(factor) | names_in(offset)
        if len(along) > 1 or not along <= set(axes):
            return None
        channel = next((axes[name] for name in along), None)
        placed = _place(forms, self._last, {}, {})
        if placed is None or (channel is not None and forms[channel] != IndexSum(((Name(next(iter(along))), 1),))):
            return None
        strides, place = placed
        return Window(data, self._type, strides, channel, {place: self._numbers(factor)}, self._numbers(offset))

    def _numbers(self, e: SourceExpr) -> Array:
        extents = dict(zip((axis.name for axis in self._last.axes), self._type.shape, strict=True))
        return self._evaluate(e, {name: extents[name] for name in extents if name in names_in(e)})

    def _sum_of_terms(self, value: Reduce, offset: SourceExpr | None) -> Window | None:
        """A sum of elements times weights."""
        match value:
            case Reduce(Reducer.SUM, _, Operation(BinOp.MUL, Read() as a, Read() as b)) if value.cond is None:
                weights, read = (a, b) if a.buffer in self._stages.consts else (b, a)
            case _:
                return None
        if weights.buffer not in self._stages.consts or (dims := self._dimensions(read)) is None:
            return None
        stage = next(s for s in self._by_buffer.values() if s.value is value)
        if {s.buffer for s in self._by_buffer.values()} - {stage.buffer, self._last.buffer, read.buffer}:
            return None
        data, forms = dims
        ranges = reduced_extents(stage)
        channel = self._channel(weights, forms, stage, ranges)
        if channel is None:
            return None
        filter_, strides = self._filter(weights, forms, stage, (channel, ranges)) or (None, ())
        shift = FloatLit(0.0) if offset is None else offset
        if filter_ is None or not names_in(shift) <= {self._last.axes[channel].name}:
            return None
        array = self._evaluate_weights(weights)
        places = {place: array[at] for place, at in filter_.subscripts.items()}
        if not filter_.results_first:
            places = {place: numbers.T for place, numbers in places.items()}
        return Window(data, self._type, strides, channel, places, self._numbers(shift), filter_)

    def _evaluate_weights(self, weights: Read) -> Array:
        shape = self._stages.types[weights.buffer].shape
        names = [f"w{d}" for d in range(len(shape))]
        return self._evaluate(Read(weights.buffer, tuple(map(Name, names))), dict(zip(names, shape, strict=True)))

    def _channel(
        self, weights: Read, forms: tuple[IndexSum, ...], stage: Stage, ranges: Mapping[str, int]
    ) -> int | None:
        """The dimension of channels: the one of the results that the weights go along."""
        every = [index.name for index in weights.indices if isinstance(index, Name)]
        own = {axis.name: d for d, axis in enumerate(stage.axes)}
        along = [own[name] for name in every if name in own]
        bare = len(every) == len(set(every)) and all(isinstance(i, Name) or i == IntLit(0) for i in weights.indices)
        if not bare or len(along) != 1:
            return None
        (channel,) = along
        match forms[channel]:
            case IndexSum(((Name(name), 1),), 0) if name == stage.axes[channel].name or name in ranges:
                return channel
        return None

    def _filter(
        self,
        weights: Read,
        forms: tuple[IndexSum, ...],
        stage: Stage,
        summed: tuple[int, Mapping[str, int]],
    ) -> tuple[Filter, tuple[int, ...]] | None:
        channel, ranges = summed
        ((atom, _),) = forms[channel].terms
        assert isinstance(atom, Name)
        mixed = atom.name if atom.name in ranges else None
        window = {name: extent for name, extent in ranges.items() if name != mixed}
        if any(names_in(weights).isdisjoint({name}) for name in ranges):
            return None
        own = {axis.name for axis in stage.axes}
        subscripts: dict[Place, tuple[int | slice, ...]] = {}
        strides: set[tuple[int, ...]] = set()
        for at in product(*(range(extent) for extent in window.values())):
            numbers = dict(zip(window, at, strict=True))
            placed = _place(forms, stage, numbers, {} if mixed is None else {mixed: channel})
            if placed is None or placed[1] in subscripts:
                return None
            strides.add(placed[0])
            subscripts[placed[1]] = tuple(_subscripts(weights, numbers))
        sliced = [i.name for i in weights.indices if isinstance(i, Name) and (i.name in own or i.name == mixed)]
        return Filter(weights.buffer, subscripts, mixed is None or sliced[0] != mixed), strides.pop()

    def _dimensions(self, read: Read) -> tuple[str, tuple[IndexSum, ...]] | None:
        """The input that a read is of, through a border of zeros or not, and its indices."""
        border = self._by_buffer.get(read.buffer)
        if border is None:
            return self._linear(read, self._names()) if read.buffer in self._stages.inputs else None
        match border.value:
            case IfElse(Read() as inner, _, IntLit(0) | FloatLit(0.0)) if inner.buffer in self._stages.inputs:
                if not self._is_border(border, inner):
                    return None
                at = dict(zip((axis.name for axis in border.axes), read.indices, strict=True))
                composed = tuple(substitute_names(index, at) for index in inner.indices)
                return self._linear(Read(inner.buffer, composed), self._names())
        return None

    def _names(self) -> dict[str, int]:
        """All indices of sums and results; borders have their own."""
        out: dict[str, int] = {}
        for stage in self._by_buffer.values():
            if not isinstance(stage.value, IfElse):
                out |= self._stages.extents(stage)
        return out

    def _linear(self, read: Read, extents: Mapping[str, int]) -> tuple[str, tuple[IndexSum, ...]] | None:
        forms = [linear_form(index, extents) for index in read.indices]
        if read.buffer in self._stages.consts or len(forms) != self._type.rank:
            return None
        found = tuple(form for form in forms if form is not None)
        return (read.buffer, found) if len(found) == len(forms) else None

    def _is_border(self, border: Stage, inner: Read) -> bool:
        """Whether a stage is its input where that has an element, and zero elsewhere."""
        assert isinstance(border.value, IfElse)
        extents = self._stages.extents(border)
        inside = _bounds(border.value.cond, extents)
        if inside is None:
            return False
        for index, extent in zip(inner.indices, self._stages.types[inner.buffer].shape, strict=True):
            match linear_form(index, extents):
                case IndexSum((), _):
                    continue
                case IndexSum(((Name(name), 1),), shift):
                    if inside[name] != (max(-shift, 0), min(extent - shift, extents[name])):
                        return False
                case _:
                    return False
        return True


def _bounds(condition: SourceExpr, extents: Mapping[str, int]) -> dict[str, tuple[int, int]] | None:
    """Of each index, from where and to where a condition holds; None where it is none of such bounds."""
    inside = {name: (0, extent) for name, extent in extents.items()}
    for part in conjuncts(condition):
        match part:
            case Operation(BinOp.GE, Name(name), IntLit(least)):
                inside[name] = (max(inside[name][0], least), inside[name][1])
            case Operation(BinOp.LT, Name(name), IntLit(end)):
                inside[name] = (inside[name][0], min(inside[name][1], end))
            case _:
                return None
    return inside


def _place(
    forms: tuple[IndexSum, ...], stage: Stage, numbers: Mapping[str, int], mixed: Mapping[str, int]
) -> tuple[tuple[int, ...], Place] | None:
    """The strides, and the place in the window where its indices have some numbers; None where indices are others.

    `mixed` is the index of channels that a sum goes over, and their dimension.
    """
    strides, place = [], []
    for d, (form, axis) in enumerate(zip(forms, stage.axes, strict=True)):
        stride, shift = 0, form.constant
        for atom, by in form.terms:
            match atom:
                case Name(name) if name in numbers:
                    shift += by * numbers[name]
                case Name(name) if mixed.get(name) == d or (name == axis.name and not stride):
                    stride = by
                case _:
                    return None
        strides.append(stride)
        place.append(shift)
    return tuple(strides), tuple(place)


def _subscripts(weights: Read, numbers: Mapping[str, int]) -> Iterator[int | slice]:
    """The part of weights where the indices of a window have some numbers."""
    for index in weights.indices:
        match index:
            case Name(name) if name in numbers:
                yield numbers[name]
            case Name():
                yield slice(None)
            case _:
                yield 0


def _without_units(stages: Stages, stage: Stage) -> Stage:
    """A stage in which the index of a dimension of one element is 0."""
    names: dict[str, SourceExpr] = {name: IntLit(0) for name, n in stages.extents(stage).items() if n == 1}
    return Stage(None, stage.buffer, stage.axes, substitute_names(stage.value, names), stage.position)
