"""Values that repeat another along dimensions of which that has one element."""

from __future__ import annotations

from dataclasses import replace

from metasched.graph.builder import GraphBuilder, GraphValue, Tally
from metasched.graph.fusion.expressions import is_cast
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, ShapeView
from metasched.ir.source import Apply, IntLit, Name, Read, SourceExpr


def drop_repeats(builder: GraphBuilder, value: GraphValue) -> GraphValue:
    """A value with one element along each dimension along which it repeats; itself where there is none."""
    maker = builder.maker(value.name)
    stages = stages_of(maker.program) if isinstance(maker, Compute) and len(maker.inputs) == 1 else None
    if stages is None or not isinstance(maker, Compute):
        return value
    source = builder.type_of(maker.inputs[0])
    if source.rank != value.rank or not _repeats(stages, source.shape):
        return value
    axis = None if value.count is None else value.count.axis
    if axis is not None and source.shape[axis] != value.shape[axis]:
        return value  # as many times as data decide
    return replace(value, name=maker.inputs[0], type=source, constant=None)


def tally_of(builder: GraphBuilder, condition: GraphValue) -> Tally:
    """How many of some booleans hold, in terms of those that they repeat, or are a view of."""
    name, times = condition.name, 1
    while True:
        maker = builder.maker(name)
        if isinstance(maker, ShapeView):
            name = maker.input
            continue
        value = GraphValue(name, builder.type_of(name))
        source = drop_repeats(builder, value)
        if source.name == name:
            return Tally(name, times)
        name, times = source.name, times * (value.type.size // source.type.size)


def booleans_behind(builder: GraphBuilder, numbers: GraphValue) -> GraphValue | None:
    """The booleans of which whole numbers are views or casts: one for each that holds, and zero for others."""
    name = numbers.name
    while True:
        maker, type_ = builder.maker(name), builder.type_of(name)
        if type_.dtype.is_bool:
            return GraphValue(name, type_)
        if isinstance(maker, ShapeView):
            name = maker.input
            continue
        stages = stages_of(maker.program) if isinstance(maker, Compute) and len(maker.inputs) == 1 else None
        if stages is None or maker is None or not type_.dtype.is_integer or not _casts(stages):
            return None
        name = maker.inputs[0]


def _casts(stages: Stages) -> bool:
    """Whether a program casts each element."""
    if len(stages.stages) != 1:
        return False
    (stage,) = stages.stages
    cast = stage.value
    if not isinstance(cast, Apply) or not is_cast(cast) or not isinstance(cast.args[0], Read):
        return False
    places = cast.args[0].indices
    return len(places) == len(stage.axes) and all(map(_is_name, places, (axis.name for axis in stage.axes)))


def _repeats(stages: Stages, shape: tuple[int, ...]) -> bool:
    """Whether a program of one stage reads an element at its own place, or the first where there is one only."""
    if len(stages.stages) != 1:
        return False
    (stage,) = stages.stages
    if not isinstance(stage.value, Read) or len(stage.value.indices) != len(stage.axes):
        return False
    places = zip(stage.value.indices, stage.axes, shape, strict=True)
    return all(_is_name(place, axis.name) or (n == 1 and place == IntLit(0)) for place, axis, n in places)


def _is_name(place: SourceExpr, name: str) -> bool:
    return isinstance(place, Name) and place.name == name
