"""Dimensions that are always used together as one: rows and columns in a 1 x 1 convolution, batch and place of a text.

Two neighbouring dimensions of a tensor can be joined if every stage goes through both by indices of its own that stand
nowhere else than beside each other. Nothing moves in memory; what is left are fewer loops, and equal programs of what
was written for different numbers of dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import pairwise

from metasched.graph.fusion.canonical import simplify_stages
from metasched.graph.fusion.expressions import map_reads, reads, substitute_names
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.ir.source import Axis, IntLit, Name, Read, Reduce, SourceExpr, Stage
from metasched.support.by_identity import remembered_by_identity
from metasched.support.data_classes import dataclass


@remembered_by_identity
def join_dimensions(stages: Stages) -> Stages:
    """Stages in which dimensions that are always used together are one, and some of one element are left out: innermost
    ones of results, along which vectors would go, those between others of what only stages read, and those of inputs
    along which no index runs. Elements and their order stay.
    """
    return _Joining(_drop_unit_dimensions(_drop_units_between(_drop_innermost_units(stages)))).run()


# --- unit dimensions -------------------------------------------------------------------------------------


def _drop_innermost_units(stages: Stages) -> Stages:
    """Without innermost dimensions of one element of what stages compute, and the indices along them; as they are where
    a result has others, as those of rows that are normalised by sums of their elements.
    """
    made = {target for stage in stages.stages for target in stage.targets}
    dropped = {name: _innermost_units(stages.types[name].shape) for name in made}
    return _drop_computed(stages, dropped) if all(dropped[name] for name in stages.outputs) else stages


def _innermost_units(shape: tuple[int, ...]) -> set[int]:
    """The last dimensions, if they are of one element, but for the first."""
    rank = next((dim + 1 for dim in reversed(range(1, len(shape))) if shape[dim] > 1), 1)
    return set(range(rank, len(shape)))


def _drop_units_between(stages: Stages) -> Stages:
    """Without dimensions of one element of what only stages read, but for the first and the innermost ones: a
    convolution of an image of one pixel is a product of one row.
    """
    between = [stage for stage in stages.stages if not {*stage.targets} & {*stages.outputs}]
    made = {target for stage in between for target in stage.targets}
    return _drop_computed(stages, {name: _units_between(stages.types[name].shape) for name in made})


def _units_between(shape: tuple[int, ...]) -> set[int]:
    """Dimensions of one element after the first one and before the last that has more."""
    return {dim for dim in range(1, len(shape)) if shape[dim] == 1} - _innermost_units(shape)


def _drop_computed(stages: Stages, dropped: dict[str, set[int]]) -> Stages:
    """Without dimensions of one element of what stages compute, and the indices along them: of `h + r`, `r` stays."""
    if not any(dropped.values()):
        return stages
    out = []
    for stage in stages.stages:
        gone = dropped.get(stage.buffer, set())
        zeros = {axis.name: IntLit(0) for dim, axis in enumerate(stage.axes) if dim in gone}
        kept = tuple(axis for dim, axis in enumerate(stage.axes) if dim not in gone)
        out.append(replace(stage, axes=kept, value=substitute_names(stage.value, zeros)))
    return simplify_stages(_drop_dimensions(replace(stages, stages=tuple(out)), dropped))


def _drop_unit_dimensions(stages: Stages) -> Stages:
    """Stages without dimensions of one element that weights have, or that other inputs are read along by a literal
    zero.
    """
    return _drop_dimensions(stages, {name: _unit_dimensions(stages, name) for name in stages.inputs})


def _unit_dimensions(stages: Stages, name: str) -> set[int]:
    shape = stages.types[name].shape
    unit = {dim for dim, extent in enumerate(shape) if extent == 1}
    for stage in stages.stages:
        single = {IntLit(0), *(Name(n) for n, extent in stages.extents(stage).items() if extent == 1)}
        able = single if name in stages.consts else {IntLit(0)}
        for read in reads(stage.value):
            if read.buffer == name:
                unit = {dim for dim in unit if read.indices[dim] in able}
    return unit if len(unit) < len(shape) else unit - {0}


def _drop_dimensions(stages: Stages, dropped: dict[str, set[int]]) -> Stages:
    def change(read: Read) -> Read:
        gone = dropped.get(read.buffer, set())
        return replace(read, indices=tuple(e for d, e in enumerate(read.indices) if d not in gone))

    types = {
        name: replace(type_, shape=tuple(n for d, n in enumerate(type_.shape) if d not in dropped.get(name, ())))
        for name, type_ in stages.types.items()
    }
    made = tuple(replace(stage, value=map_reads(stage.value, change)) for stage in stages.stages)
    return replace(stages, types=types, stages=made)


# --- dimensions used together ----------------------------------------------------------------------------

# Two indices of a stage that stand beside each other.
_Pair = tuple[str, str]


@dataclass(frozen=True)
class _Access:
    """A stage goes through a tensor; `indices` are its variables, None where an index is anything else."""

    stage: int
    buffer: str
    indices: tuple[str | None, ...]

    def pairs(self) -> Iterator[tuple[int, str | None, str | None]]:
        """Neighbouring dimensions: the first's number, and the variables of both."""
        return ((d, a, b) for d, (a, b) in enumerate(pairwise(self.indices)))


@dataclass
class _Joining:
    stages: Stages
    accesses: list[_Access] = field(default_factory=list)
    # By the number of the stage: pairs of its indices that may be one.
    pairs: dict[int, set[_Pair]] = field(default_factory=dict)
    # By the tensor: dimensions that may be one with the next.
    dims: dict[str, set[int]] = field(default_factory=dict)

    def run(self) -> Stages:
        for number, stage in enumerate(self.stages.stages):
            self._collect_accesses(number, stage)
        self.dims = {name: set(range(type_.rank - 1)) for name, type_ in self.stages.types.items()}
        while self._narrow_candidates():
            pass
        return self._build_stages() if any(self.dims.values()) else self.stages

    def _collect_accesses(self, number: int, stage: Stage) -> None:
        extents = self.stages.extents(stage)
        own = tuple(axis.name for axis in stage.axes)
        self.accesses += [_Access(number, target, own) for target in stage.targets]
        bound = dict[str, int]()
        for read in reads(stage.value):
            shape = self.stages.types[read.buffer].shape
            whole = tuple(_variable(e, extents, n) for e, n in zip(read.indices, shape, strict=True))
            self.accesses.append(_Access(number, read.buffer, whole))
            for name in whole:
                bound[name or ""] = bound.get(name or "", 0) + 1
        uses = _uses(stage)
        free = {name for name in extents if uses.get(name, 0) == bound.get(name, 0)}
        inner = tuple(reduced_extents(stage))
        if isinstance(stage.value, Reduce) and stage.value.reducer.is_arg:
            inner = ()
        neighbours = [*pairwise(own), *pairwise(inner)]
        self.pairs[number] = {pair for pair in neighbours if free.issuperset(pair)}

    def _narrow_candidates(self) -> bool:
        """Leave out what some access speaks against; whether there was any."""
        before = self._count()
        for access in self.accesses:
            pairs, dims = self.pairs[access.stage], self.dims[access.buffer]
            for d, a, b in access.pairs():
                if (a, b) not in pairs:
                    dims.discard(d)
            for d, name in enumerate(access.indices):
                for pair in [pair for pair in pairs if name in pair]:
                    place = d if pair[0] == name else d - 1
                    if place not in dims or access.indices[place : place + 2] != pair:
                        pairs.discard(pair)
        return self._count() < before

    def _count(self) -> int:
        return sum(map(len, self.pairs.values())) + sum(map(len, self.dims.values()))

    def _build_stages(self) -> Stages:
        out = []
        for number, stage in enumerate(self.stages.stages):
            second = {b for _, b in self.pairs[number]}
            value = stage.value
            if isinstance(value, Reduce):
                value = replace(value, axes=self._ranges(number, value))
            out.append(replace(stage, axes=tuple(a for a in stage.axes if a.name not in second), value=value))
        shapes = {name: self._shape(name) for name in self.stages.types}
        types = {name: replace(type_, shape=shapes[name]) for name, type_ in self.stages.types.items()}

        def change(read: Read) -> Read:
            gone = {d + 1 for d in self.dims[read.buffer]}
            return replace(read, indices=tuple(e for d, e in enumerate(read.indices) if d not in gone))

        made = tuple(replace(stage, value=map_reads(stage.value, change)) for stage in out)
        return replace(self.stages, types=types, stages=made)

    def _shape(self, name: str) -> tuple[int, ...]:
        out: list[int] = []
        for d, extent in enumerate(self.stages.types[name].shape):
            if d - 1 in self.dims[name]:
                out[-1] *= extent
            else:
                out.append(extent)
        return tuple(out)

    def _ranges(self, number: int, value: Reduce) -> tuple[Axis, ...]:
        second = {b for _, b in self.pairs[number]}
        out: list[tuple[Axis, int]] = []
        for axis in value.axes:
            assert isinstance(axis.extent, IntLit), axis
            if axis.name in second:
                first, extent = out.pop()
                out.append((first, extent * axis.extent.value))
            else:
                out.append((axis, axis.extent.value))
        return tuple(replace(axis, extent=IntLit(extent)) for axis, extent in out)


def _variable(e: SourceExpr, extents: dict[str, int], extent: int) -> str | None:
    """The variable that an index is, if it runs along the whole dimension."""
    return e.name if isinstance(e, Name) and extents.get(e.name) == extent else None


def _uses(stage: Stage) -> dict[str, int]:
    """How often each variable stands in what a stage computes."""
    out: dict[str, int] = {}
    for node in stage.value.walk():
        if isinstance(node, Name):
            out[node.name] = out.get(node.name, 0) + 1
    return out
