"""Stages whose indices along a dimension are several, as heads are groups of heads and heads of each.

What stands for an index of a stage everywhere else is the sum that the parts count; a dimension that the index runs
along as a whole becomes as many dimensions. Nothing moves in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from metasched.graph.fusion.canonical import index_text
from metasched.graph.fusion.expressions import map_reads, reads, substitute_names
from metasched.graph.fusion.indices import IndexSum, linear_form
from metasched.graph.fusion.stages import Stages
from metasched.graph.fusion.views import Shape
from metasched.ir.source import Axis, IntLit, Name, Read, SourceExpr, Stage
from metasched.support.by_identity import remembered_by_identity
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Split:
    """A dimension of a tensor that is to be several, and how many elements each of these has."""

    dim: int
    parts: Shape

    @property
    def extent(self) -> int:
        return math.prod(self.parts)

    def shape(self, whole: Shape) -> Shape:
        return (*whole[: self.dim], *self.parts, *whole[self.dim + 1 :])

    def indices(self, whole: Sequence[SourceExpr], names: Sequence[str]) -> tuple[SourceExpr, ...]:
        """The indices into the tensor, with an index for each part."""
        return (*whole[: self.dim], *map(Name, names), *whole[self.dim + 1 :])


@dataclass(frozen=True)
class SplitStages:
    """Stages, and the dimensions that are several now, by their tensors."""

    stages: Stages
    splits: Mapping[str, Split]


class _CannotSplitError(Exception):
    """Stages use a dimension in a way that its parts cannot say."""


def split_dimension(stages: Stages, name: str, split: Split) -> SplitStages | None:
    """The stages with a dimension of a tensor in parts, and those of others that go with it.

    None where some stage does not go along it by an index of its own result, as where it reduces it.
    """
    try:
        return _Splitting(stages, split.parts, {name: split}).run()
    except _CannotSplitError:
        return None


@dataclass
class _Splitting:
    stages: Stages
    parts: Shape
    splits: dict[str, Split]
    # By the number of a stage: its index that is to be several.
    along: dict[int, str] = field(default_factory=dict)

    def run(self) -> SplitStages:
        while self._spread():
            pass
        types = dict(self.stages.types)
        for name, split in self.splits.items():
            types[name] = replace(types[name], shape=split.shape(types[name].shape))
        made = tuple(self._over_parts(n, stage) for n, stage in enumerate(self.stages.stages))
        return SplitStages(replace(self.stages, types=types, stages=made), self.splits)

    @property
    def _extent(self) -> int:
        return math.prod(self.parts)

    def _spread(self) -> bool:
        """Find indices that go along the dimensions that are known, and dimensions along these; whether any are new."""
        before = len(self.splits), len(self.along)
        for number, stage in enumerate(self.stages.stages):
            accesses = list(_accesses(stage))
            for buffer, indices in accesses:
                if buffer in self.splits:
                    self._add_index(number, stage, indices[self.splits[buffer].dim])
            for buffer, indices in accesses if number in self.along else ():
                self._add_dimensions(buffer, indices, self.along[number])
        return before != (len(self.splits), len(self.along))

    def _add_index(self, number: int, stage: Stage, index: SourceExpr) -> None:
        own = {axis.name for axis in stage.axes}
        if not isinstance(index, Name) or index.name not in own or self.along.get(number, index.name) != index.name:
            raise _CannotSplitError
        if stage.position is not None or self.stages.extents(stage)[index.name] != self._extent:
            raise _CannotSplitError
        self.along[number] = index.name

    def _add_dimensions(self, buffer: str, indices: tuple[SourceExpr, ...], name: str) -> None:
        shape = self.stages.types[buffer].shape
        for dim, index in enumerate(indices):
            if index == Name(name) and shape[dim] == self._extent:
                split = Split(dim, self.parts)
                if self.splits.setdefault(buffer, split) != split:
                    raise _CannotSplitError

    def _over_parts(self, number: int, stage: Stage) -> Stage:
        if number not in self.along:
            return stage
        whole, extents = self.along[number], self.stages.extents(stage)
        names = _new_names(whole, len(self.parts), extents)
        extents |= dict(zip(names, self.parts, strict=True))
        place = IndexSum(())
        for n, name in enumerate(names):
            place = place.plus(IndexSum(((Name(name), 1),)), math.prod(self.parts[n + 1 :]))

        def change(read: Read) -> Read:
            indices = read.indices
            if read.buffer in self.splits:
                indices = self.splits[read.buffer].indices(indices, names)
            there = (substitute_names(index, {whole: place.expression()}) for index in indices)
            return replace(read, indices=tuple(index_text(index, extents) for index in there))

        value = substitute_names(map_reads(stage.value, change), {whole: place.expression()})
        axes = [part for axis in stage.axes for part in (map(Axis, names) if axis.name == whole else (axis,))]
        return replace(stage, axes=tuple(axes), value=value)


def _accesses(stage: Stage) -> Iterator[tuple[str, tuple[SourceExpr, ...]]]:
    """What a stage goes through, and by which indices."""
    for target in stage.targets:
        yield target, tuple(Name(axis.name) for axis in stage.axes)
    for read in reads(stage.value):
        yield read.buffer, read.indices


def _new_names(like: str, count: int, taken: Mapping[str, int]) -> list[str]:
    number, names = 0, list[str]()
    while len(names) < count:
        name = f"{like}_{number}"
        number += 1
        if name not in taken:
            names.append(name)
    return names


# --- inputs ----------------------------------------------------------------------------------------------


@remembered_by_identity
def split_inputs(stages: Stages) -> Stages:
    """Stages whose inputs have a dimension for each of two indices of results that count places along one, as in
    `A[4 * i0 + i1]`.
    """
    found = ((name, _counted_parts(stages, name)) for name in stages.inputs)
    splits = {name: split for name, split in found if split is not None}
    if not splits:
        return stages
    types = dict(stages.types)
    for name, split in splits.items():
        types[name] = replace(types[name], shape=split.shape(types[name].shape))
    made = tuple(
        replace(s, value=map_reads(s.value, partial(_read_by_parts, splits, s, stages))) for s in stages.stages
    )
    return split_inputs(replace(stages, types=types, stages=made))


def _read_by_parts(splits: Mapping[str, Split], stage: Stage, stages: Stages, read: Read) -> Read:
    split = splits.get(read.buffer)
    if split is None:
        return read
    names = _counting(read.indices[split.dim], stages, stage)
    assert names is not None, read
    return replace(read, indices=split.indices(read.indices, names))


def _counted_parts(stages: Stages, name: str) -> Split | None:
    """The first dimension of an input along which all places are counted by two indices of as many elements."""
    found = [(stage, read) for stage in stages.stages for read in reads(stage.value) if read.buffer == name]
    for dim, whole in enumerate(stages.types[name].shape):
        parts = {_extents_of(_counting(read.indices[dim], stages, stage), stages, stage) for stage, read in found}
        if len(parts) == 1 and (only := next(iter(parts))) and math.prod(only) == whole:
            return Split(dim, only)
    return None


def _extents_of(names: Sequence[str], stages: Stages, stage: Stage) -> Shape:
    extents = stages.extents(stage)
    return tuple(extents[name] for name in names)


def _counting(index: SourceExpr, stages: Stages, stage: Stage) -> tuple[str, ...]:
    """Two indices of a stage's result of which the second counts within what the first counts; none where an index is
    anything else, as a place in a window is, part of which is reduced.
    """
    extents, own = stages.extents(stage), {axis.name for axis in stage.axes}
    form = None if isinstance(index, Name | IntLit) else linear_form(index, extents)
    if form is None or form.constant or len(form.terms) != 2:
        return ()
    (outer, step), (inner, unit) = sorted(form.terms, key=lambda term: -term[1])
    if not isinstance(outer, Name) or not isinstance(inner, Name) or not own.issuperset((outer.name, inner.name)):
        return ()
    return (outer.name, inner.name) if unit == 1 and step == extents[inner.name] else ()
