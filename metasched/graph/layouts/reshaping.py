"""Stages that go over their data in the shape that it had in front of a view.

A norm of groups of channels reads `[n, channels, h, w]` as `[n, groups, elements]`. Over the first shape it computes
the same: what goes through all elements does so in that shape, what goes along some dimensions goes along those that
they are made of, and a reduction along a part of a dimension is one along the others, and then another along that part.
Then no order of the dimensions in memory ends at the view, and nothing is read by quotients that a view makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import pairwise

from metasched.graph.fusion.canonical import index_text
from metasched.graph.fusion.expressions import reads, substitute_names
from metasched.graph.fusion.indices import Extents, IndexSum, floordiv, modulo
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.graph.fusion.views import Shape, align_dimensions, indices_through_view
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import Axis, IntLit, Name, Operation, Read, Reduce, SourceExpr, SourceNode, Stage
from metasched.support.data_classes import dataclass

# Reductions that may be done in two steps.
_STEPWISE_REDUCERS = frozenset({Reducer.SUM, Reducer.PROD, Reducer.MAX, Reducer.MIN})


class _CannotReshapeError(Exception):
    """Stages use a tensor in a way that another shape of it cannot say."""


def reshape_stages(stages: Stages, name: str, shape: Shape) -> Stages | None:
    """The stages with an input, and what has its shape, in another shape of the same elements in order.

    None where some stage does not go through it by its own indices, where results would be computed more often, or
    where what is read for each element would be by quotients.
    """
    digits = _digits(stages.types[name].shape, shape)
    if digits is None:
        return None
    try:
        return _Reshaping(stages, stages.types[name].shape, shape, digits).run()
    except _CannotReshapeError:
        return None


def has_quotients(e: SourceExpr) -> bool:
    """Whether an index has a quotient or a remainder in it."""
    return any(isinstance(node, Operation) and node.op in (BinOp.FLOORDIV, BinOp.MOD) for node in e.walk())


def is_read_by_quotients(viewed: Shape, source: Shape) -> bool:
    """Whether the element at some place of a view is found by quotients."""
    names = [f"v{d}" for d in range(len(viewed))]
    found = indices_through_view([Name(n) for n in names], viewed, source, dict(zip(names, viewed, strict=True)))
    return any(has_quotients(e) for e in found)


@dataclass(frozen=True)
class _Digit:
    """What a dimension of one shape has in common with a dimension of another: a part of the index of both.

    Its value is the index in the dimension `given` by `given_step`, and that in `made` by `made_step`, modulo its size.
    """

    size: int
    given: int
    given_step: int
    made: int
    made_step: int


def _digits(given: Shape, made: Shape) -> tuple[_Digit, ...] | None:
    """The parts of which the dimensions of both shapes are made; None where there are none: [4, 6] and [6, 4]."""
    out: list[_Digit] = []
    for own, other in align_dimensions(given, made):
        a, b = _ends(given, own), _ends(made, other)
        ends = sorted({*a, *b, 1})
        for low, high in pairwise(ends):
            if high % low:
                return None
            (dim, step), (place, pace) = (
                _locate_part(low, high, shape, dims) for shape, dims in ((given, own), (made, other))
            )
            out.append(_Digit(high // low, dim, step, place, pace))
    return tuple(out)


def _ends(shape: Shape, dims: range) -> list[int]:
    """Elements of the innermost dimensions of a group, for each number of them."""
    out, size = list[int](), 1
    for dim in reversed(dims):
        size *= shape[dim]
        out.append(size)
    return out


def _locate_part(low: int, high: int, shape: Shape, dims: range) -> tuple[int, int]:
    """The dimension in which a part of a group's place lies, and its step there."""
    size = 1
    for dim in reversed(dims):
        if size <= low and high <= size * shape[dim] and low % size == 0:
            return dim, low // size
        size *= shape[dim]
    raise AssertionError("a part that ends where no dimension of it does")


@dataclass
class _Reshaping:
    stages: Stages
    given: Shape
    made: Shape
    digits: tuple[_Digit, ...]
    # Tensors of the given rank whose dimensions are its or of one element, in their new shapes.
    shapes: dict[str, Shape] = field(default_factory=dict)
    added: dict[str, ValueType] = field(default_factory=dict)

    def run(self) -> Stages:
        for name in self.stages.inputs:
            if self.stages.types[name].shape == self.given:
                self.shapes[name] = self.made
        out: list[Stage] = []
        for stage in self.stages.stages:
            if isinstance(stage.value, Reduce):
                out += self._reduction(stage, stage.value)
            else:
                out.append(self._elementwise(stage))
        types = dict(self.stages.types) | self.added
        for name, shape in self.shapes.items():
            types[name] = replace(types[name], shape=shape)
        if any(types[name].size != self.stages.types[name].size for name in self.stages.outputs):
            raise _CannotReshapeError
        return replace(self.stages, types=types, stages=tuple(out))

    # --- shapes

    def _reshape_value(self, shape: Shape) -> Shape | None:
        """A shape with the given dimensions, or some of them, over the made ones; None where it has others."""
        if len(shape) != len(self.given) or any(n not in (1, m) for n, m in zip(shape, self.given, strict=True)):
            return None
        long = {digit.made for digit in self.digits if shape[digit.given] > 1}
        return tuple(extent if dim in long else 1 for dim, extent in enumerate(self.made))

    @property
    def _names(self) -> tuple[str, ...]:
        """Indices along the made dimensions, by names that no stage has."""
        return tuple(f"m{dim}_" for dim in range(len(self.made)))

    def _place(self, dim: int, extents: Extents) -> SourceExpr:
        """The index along a given dimension of what is at the made ones."""
        total = IndexSum(())
        for digit in self.digits:
            if digit.given == dim:
                own = IndexSum(((Name(self._names[digit.made]), 1),))
                total = total.plus(_digit_of(own, digit.made_step, digit.size, extents), digit.given_step)
        return total.expression()

    # --- stages

    def _elementwise(self, stage: Stage) -> Stage:
        own = self.stages.types[stage.buffer].shape
        shape = self._reshape_value(own)
        if shape is None or stage.position is not None:
            if any(read.buffer in self.shapes for read in reads(stage.value)):
                raise _CannotReshapeError
            return stage
        self.shapes[stage.buffer] = shape
        along = tuple(axis.name for axis in stage.axes)
        value = self._over_made(stage, stage.value, along, shape)
        return replace(stage, axes=tuple(Axis(name) for name in self._names), value=value)

    def _reduction(self, stage: Stage, value: Reduce) -> Iterator[Stage]:
        if not any(read.buffer in self.shapes for read in reads(value)):
            yield stage
            return
        if value.cond is not None or value.reducer not in _STEPWISE_REDUCERS:
            raise _CannotReshapeError
        along = self._variables_along(stage, value.operand)
        inner = reduced_extents(stage)
        gone = {dim for dim, name in enumerate(along) if name in inner}
        if {along[dim] for dim in gone} != inner.keys():
            raise _CannotReshapeError
        kept = {digit.made for digit in self.digits if digit.given not in gone}
        # Dimensions of which a part is reduced: they stay at first.
        mixed = kept & {digit.made for digit in self.digits if digit.given in gone}
        ranges = tuple(
            Axis(self._names[dim], IntLit(n)) for dim, n in enumerate(self.made) if n > 1 and dim not in kept
        )
        operand = self._over_made(stage, value.operand, along, self.made)
        self._require_own_axes(stage, along, gone)
        if not mixed and self._is_same(kept):
            renamed = {
                self._names[digit.made]: Name(along[digit.given] or "") for digit in self.digits if digit.made in kept
            }
            yield replace(stage, value=replace(value, axes=ranges, operand=substitute_names(operand, renamed)))
            return
        type_ = self.stages.types[stage.buffer]
        if type_.dtype.compute is not type_.dtype or not ranges:
            raise _CannotReshapeError
        first = self._new(stage.buffer)
        self.added[first] = replace(type_, shape=tuple(n if dim in kept else 1 for dim, n in enumerate(self.made)))
        axes = tuple(Axis(n if dim in kept else f"u{dim}_") for dim, n in enumerate(self._names))
        yield Stage(None, first, axes, replace(value, axes=ranges, operand=operand))
        yield self._second(stage, value, first, along, kept, gone)

    def _second(
        self, stage: Stage, value: Reduce, first: str, along: Sequence[str | None], kept: set[int], gone: set[int]
    ) -> Stage:
        """What is left to reduce of dimensions of which a part was to be reduced."""
        extents = self.stages.extents(stage)
        places, ranges = [IndexSum(()) for _ in self.made], list[Axis]()
        for number, digit in enumerate(self.digits):
            if digit.made not in kept:
                continue
            if digit.given in gone:
                ranges.append(Axis(f"d{number}_", IntLit(digit.size)))
                part = IndexSum(((Name(f"d{number}_"), 1),))
            else:
                own = IndexSum(((Name(along[digit.given] or ""), 1),))
                part = _digit_of(own, digit.given_step, digit.size, extents)
            places[digit.made] = places[digit.made].plus(part, digit.made_step)
        read = Read(first, tuple(place.expression() for place in places))
        return replace(stage, value=replace(value, axes=tuple(ranges), operand=read) if ranges else read)

    def _is_same(self, kept: set[int]) -> bool:
        """Whether the dimensions that are kept are whole dimensions of both shapes."""
        return all(d.size == self.given[d.given] == self.made[d.made] for d in self.digits if d.made in kept)

    def _require_own_axes(self, stage: Stage, along: Sequence[str | None], gone: set[int]) -> None:
        """What is kept goes along the stage's own indices, and all of those along what is kept."""
        shape = self.stages.types[stage.buffer].shape
        own = {axis.name for axis, extent in zip(stage.axes, shape, strict=True) if extent > 1}
        if {along[digit.given] for digit in self.digits if digit.given not in gone} != own:
            raise _CannotReshapeError

    # --- expressions

    def _variables_along(self, stage: Stage, operand: SourceExpr) -> tuple[str | None, ...]:
        """The variables that run along the given dimensions in what a stage reads; None along those of one element."""
        extents, found = self.stages.extents(stage), list[str | None]([None] * len(self.given))
        for read in reads(operand):
            if self.stages.types[read.buffer].shape == self.given and read.buffer in self.shapes:
                for dim, index in enumerate(read.indices):
                    if self.given[dim] > 1 and isinstance(index, Name) and extents.get(index.name) == self.given[dim]:
                        found[dim] = index.name
        names = [name for name in found if name is not None]
        if len(names) != len(set(names)) or len(names) != sum(n > 1 for n in self.given):
            raise _CannotReshapeError
        return tuple(found)

    def _over_made(self, stage: Stage, e: SourceExpr, along: Sequence[str | None], shape: Shape) -> SourceExpr:
        """An expression of a stage over variables along the given dimensions, over indices along the made ones."""
        extents = dict(zip(self._names, shape, strict=True))
        whole = dict(zip(self._names, self.made, strict=True))
        places = {name: self._place(dim, whole) for dim, name in enumerate(along) if name is not None}
        places |= {name: IntLit(0) for name, extent in self.stages.extents(stage).items() if extent == 1}

        def change(node: SourceNode) -> SourceNode:
            if isinstance(node, Name):
                return places.get(node.name, node)
            if not isinstance(node, Read):
                return node.map(change)
            if node.buffer in self.shapes:
                return self._reshape_read(node, along, shape)
            made = node.map(change)
            assert isinstance(made, Read)
            indices = tuple(index_text(index, extents) for index in made.indices)
            if shape == self.made and node.buffer not in self.stages.consts and any(map(has_quotients, indices)):
                raise _CannotReshapeError
            return replace(made, indices=indices)

        return change(e)  # type: ignore[return-value]

    def _reshape_read(self, read: Read, along: Sequence[str | None], shape: Shape) -> Read:
        given = self.stages.types[read.buffer].shape
        for dim, extent in enumerate(given):
            if extent > 1 and read.indices[dim] != Name(along[dim] or ""):
                raise _CannotReshapeError
        made = self.shapes[read.buffer]
        if any(n > 1 and m == 1 for n, m in zip(made, shape, strict=True)):
            raise _CannotReshapeError
        indices = tuple(Name(n) if extent > 1 else IntLit(0) for n, extent in zip(self._names, made, strict=True))
        return replace(read, indices=indices)

    def _new(self, like: str) -> str:
        number = 0
        while (name := f"{like}_{number}") in self.stages.types or name in self.added:
            number += 1
        return name


def _digit_of(index: IndexSum, step: int, size: int, extents: Extents) -> IndexSum:
    """A digit of an index."""
    return modulo(floordiv(index, step, extents), size, extents)
