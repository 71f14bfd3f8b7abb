"""Intermediate values that are written into what reads them, where that computes nothing more often."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from metasched.graph.fusion.expressions import (
    dtype_of,
    is_cast,
    operations,
    reads,
    substituted,
    with_reads,
)
from metasched.graph.fusion.stages import Stages
from metasched.ir.prologue import MOST_GROWTH, NO_MATTER
from metasched.ir.source import Apply, IfElse, Name, Read, Reduce, SourceExpr, Stage

# Operations that may be written twice in one expression: compiled code computes an expression that is there twice once.
_REPEATED = 8
# How much larger a value may be with a border around it.
_BORDER = 2
# Expressions of more nodes stay apart.
_LARGEST = 150


def inlined(stages: Stages) -> Stages:
    """The stages with intermediate values written into what reads them, as far as that costs nothing."""
    while True:
        found = next((s for s in stages.stages if _can_inline(stages, s)), None)
        if found is None:
            return stages
        stages = _without(stages, found)


def _can_inline(stages: Stages, stage: Stage) -> bool:
    name, value = stage.buffer, stage.value
    if isinstance(value, Reduce) or stage.position is not None or name in stages.outputs:
        return False
    uses = [(reader, _count(reader, name)) for reader in stages.stages if _count(reader, name)]
    if not uses or _as_operand(stages, stage) is None:
        return False
    if any(_in_subscript(reader, name) or _adds_to_places(stage, reader) for reader, _ in uses):
        return False
    size = sum(1 for _ in value.walk())
    if any(count * size + sum(1 for _ in reader.value.walk()) > _LARGEST for reader, count in uses):
        return False
    cost = operations(value)
    guarded = any(isinstance(node, IfElse) for node in value.walk())
    if guarded and any(isinstance(reader.value, Reduce) for reader, _ in uses):
        return False
    if not cost and not guarded:
        return True
    if any(isinstance(reader.value, Reduce) for reader, _ in uses) and _unpacks(stages, stage):
        return False
    own = stages.iterations(stage)
    if any(count > 1 and cost * count > _REPEATED for _, count in uses):
        return False
    total = sum(stages.iterations(reader) for reader, _ in uses)
    if all(isinstance(reader.value, IfElse) for reader, _ in uses):
        # Outside of a border, nothing is computed.
        return len(uses) == 1 and total <= _BORDER * own
    return total <= own or (cost == 1 and all(stages.iterations(reader) <= own for reader, _ in uses))


def _unpacks(stages: Stages, stage: Stage) -> bool:
    """Whether a stage makes floats of weights that are much smaller: schedules have places of their own for that."""
    made, given = stages.types[stage.buffer], {read.buffer for read in reads(stage.value)}
    before = sum(stages.types[name].nbytes for name in given)
    return given <= stages.consts and made.dtype.is_float and made.nbytes > MOST_GROWTH * before + NO_MATTER


def _count(stage: Stage, name: str) -> int:
    return sum(1 for read in reads(stage.value) if read.buffer == name)


def _in_subscript(stage: Stage, name: str) -> bool:
    """Whether a stage reads a value as an index: it has checks of its own, which go by its name."""
    return any(inner.buffer == name for read in reads(stage.value) for e in read.indices for inner in reads(e))


def _adds_to_places(stage: Stage, reader: Stage) -> bool:
    """Whether a place that an input alone says would become a part of an index, which no call checks.

    Where a condition guards the read, that says that the place is inside.
    """
    names = Counter(node.name for node in stage.value.walk() if isinstance(node, Name))
    alone = Counter(i.name for read in reads(stage.value) for i in read.indices if isinstance(i, Name))
    moved = [names[axis.name] > alone[axis.name] for axis in stage.axes]
    if not any(moved):
        return False
    guarded = {id(read) for node in reader.value.walk() if isinstance(node, IfElse) for read in reads(node)}
    return any(
        adds and isinstance(index, Read)
        for read in reads(reader.value)
        if read.buffer == stage.buffer and id(read) not in guarded
        for adds, index in zip(moved, read.indices, strict=True)
    )


def _as_operand(stages: Stages, stage: Stage) -> SourceExpr | None:
    """A stage's value as a part of an expression, of its buffer's type and rounded as it would be there.

    None where no expression says so.
    """
    wanted = stages.types[stage.buffer].dtype
    given = dtype_of(stage.value, stages.dtypes)
    if wanted.compute is not wanted:
        # A half is rounded where it is stored; within an expression, only a cast from another type does that.
        rounded = isinstance(stage.value, Read) or is_cast(stage.value)
        return stage.value if rounded and given is wanted else None
    if given is None:
        return Apply(wanted.value, (stage.value,))
    return stage.value if given is wanted else None


def _without(stages: Stages, stage: Stage) -> Stages:
    operand = _as_operand(stages, stage)
    assert operand is not None
    names = [axis.name for axis in stage.axes]

    def change(read: Read) -> SourceExpr:
        if read.buffer != stage.buffer:
            return read
        return substituted(operand, dict(zip(names, read.indices, strict=True)))

    changed = tuple(
        replace(s, value=with_reads(s.value, change)) if _count(s, stage.buffer) else s
        for s in stages.stages
        if s is not stage
    )
    return replace(stages, stages=changed)


def without_copies(stages: Stages) -> Stages:
    """The stages with a result that is another order of an intermediate value's elements computed in that order.

    A sum whose neighbours would be apart stays as it is, and is put into the other order from its tiles.
    """
    while True:
        found = next((s for s in stages.stages if _is_reordered(stages, s)), None)
        if found is None:
            return stages
        stages = _computed_in_order(stages, found)


def _is_reordered(stages: Stages, stage: Stage) -> bool:
    """Whether a stage only puts all elements of a value, which nothing else reads, into another order."""
    read = stage.value
    if not isinstance(read, Read) or read.buffer not in stages.by_buffer or read.buffer in stages.outputs:
        return False
    source = stages.by_buffer[read.buffer]
    used = [index.name for index in read.indices if isinstance(index, Name)]
    return (
        source.position is None
        and used_counts(stages)[read.buffer] == 1
        and stages.types[read.buffer].dtype is stages.types[stage.buffer].dtype
        and len(used) == len(read.indices)
        and sorted(used) == sorted(axis.name for axis in stage.axes)
        and not (isinstance(source.value, Reduce) and _turns(stages, stage, used))
    )


def _turns(stages: Stages, stage: Stage, read: list[str]) -> bool:
    """Whether other elements are neighbours in what a stage writes than in what it reads.

    A sum that was to be computed along its own innermost dimension would be computed along another one.
    """
    shape = stages.types[stage.buffer].shape
    extents = {axis.name: extent for axis, extent in zip(stage.axes, shape, strict=True)}
    given, made = ([name for name in order if extents[name] > 1] for order in (read, list(extents)))
    return given[-1:] != made[-1:]


def _computed_in_order(stages: Stages, stage: Stage) -> Stages:
    read = stage.value
    assert isinstance(read, Read)
    source = stages.by_buffer[read.buffer]
    places = [index.name for index in read.indices if isinstance(index, Name)]
    axes = tuple(source.axes[places.index(axis.name)] for axis in stage.axes)
    made = replace(source, buffer=stage.buffer, axes=axes)
    return replace(stages, stages=tuple(made if s is source else s for s in stages.stages if s is not stage))


def used_counts(stages: Stages) -> Counter[str]:
    """How many reads each buffer has."""
    return Counter(read.buffer for stage in stages.stages for read in reads(stage.value))
