"""The stages of a program with every shape and range written out, and a program made of stages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import lru_cache

from metasched.dtypes import DType
from metasched.graph.value_type import ValueType, type_of
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.program import Program
from metasched.ir.source import Argument, Axis, BufferDeclaration, IntLit, ProgramDef, Reduce, Stage
from metasched.ir.source_printer import print_program
from metasched.lang import parse_program
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.elaborate import elaborate
from metasched.support.by_identity import Itself, remembered_by_identity
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Stages:
    """What a program computes, over buffers of any names.

    Attributes:
        types: of every buffer.
        inputs: buffers that are given, in the order of the arguments.
        consts: those of them that are weights.
        outputs: buffers that are results, in order.
        stages: what computes the other buffers, in an order in which they can run; every reduction's ranges are
            written, and those of a stage's own indices are the shape of its buffer.

    """

    types: Mapping[str, ValueType]
    inputs: tuple[str, ...]
    consts: frozenset[str]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]

    @property
    def dtypes(self) -> dict[str, DType]:
        return {name: type_.dtype for name, type_ in self.types.items()}

    @property
    def by_buffer(self) -> dict[str, Stage]:
        """The stage that computes each buffer."""
        return {name: stage for stage in self.stages for name in stage.targets}

    def extents(self, stage: Stage) -> dict[str, int]:
        """The extents of the indices of a stage, those of its reduction last."""
        own = dict(zip((axis.name for axis in stage.axes), self.types[stage.buffer].shape, strict=True))
        return own | reduced_extents(stage)

    def iterations(self, stage: Stage) -> int:
        """How many terms, or elements, a stage computes."""
        return math.prod(self.extents(stage).values())


def reduced_extents(stage: Stage) -> dict[str, int]:
    """The extents of the indices that a stage reduces."""
    if not isinstance(stage.value, Reduce):
        return {}
    out = {}
    for axis in stage.value.axes:
        assert isinstance(axis.extent, IntLit), axis
        out[axis.name] = axis.extent.value
    return out


@remembered_by_identity
def stages_of(program: Program) -> Stages | None:
    """The stages of a program; None where it has scalar arguments, parameters, or named sizes."""
    definition = program.definition
    if program.scalars or definition.params or definition.lets:
        return None
    blocks = {block.stores[0].buffer: block for block in query.blocks_under(program.func.body)}
    types = {buffer.name: type_of(buffer) for buffer in program.func.buffers()}
    stages = []
    for stage in definition.stages:
        axes = tuple(Axis(axis.name) for axis in stage.axes)
        value = stage.value
        if isinstance(value, Reduce):
            iters = {v.name: as_int(v.extent) for v in blocks[stage.buffer].iters}
            ranges = [iters.get(axis.name) for axis in value.axes]
            if None in ranges:
                return None
            value = replace(
                value, axes=tuple(Axis(a.name, IntLit(n)) for a, n in zip(value.axes, ranges, strict=True) if n)
            )
        stages.append(Stage(None, stage.buffer, axes, value, stage.position))
    return Stages(
        types,
        tuple(b.name for b in program.inputs),
        frozenset(b.name for b in program.inputs if b.const),
        tuple(b.name for b in program.outputs),
        tuple(stages),
    )


def program_of(stages: Stages, name: str) -> Program:
    """The program of stages whose buffers have names of the language."""
    return _program_of(Itself(stages), name)


@lru_cache(maxsize=1 << 12)
def _program_of(key: Itself[Stages], name: str) -> Program:
    stages = key.object
    definition = ProgramDef(
        name,
        (),
        tuple(
            Argument(n, stages.types[n].dtype, _shape(stages.types[n]), const=n in stages.consts) for n in stages.inputs
        ),
        tuple(BufferDeclaration(n, stages.types[n].dtype, _shape(stages.types[n])) for n in stages.outputs),
        (),
        tuple(
            BufferDeclaration(n, stages.types[n].dtype, _shape(stages.types[n]))
            for stage in stages.stages
            for n in stage.targets
            if n not in stages.outputs
        ),
        stages.stages,
    )
    return _elaborate_once(_ProgramText(print_program(definition), definition))


@dataclass(frozen=True)
class _ProgramText:
    """A program as text and as the tree that the text parses to, which is not parsed again: that takes half as long as
    all the rest.
    """

    text: str
    definition: ProgramDef = field(compare=False)


@lru_cache(maxsize=1 << 12)
def parse_once(text: str) -> Program:
    """The program of a text. One that is asked for again is the same object."""
    return parse_program(text)


@lru_cache(maxsize=1 << 12)
def _elaborate_once(written: _ProgramText) -> Program:
    """The program of a text. One that is asked for again is the same object."""
    return elaborate(written.definition, {}, Diagnostics(written.text, "<graph>"))


def _shape(type_: ValueType) -> tuple[IntLit, ...]:
    return tuple(IntLit(extent) for extent in type_.shape)


_LONGEST_NAME = 60


def joined_name(names: Iterable[str]) -> str:
    """The name of a program that does what several do: theirs, each once, as far as there is room."""
    parts = dict.fromkeys(part for name in names for part in name.split("__"))
    out = ""
    for part in parts:
        if len(out) + len(part) + 2 > _LONGEST_NAME:
            return f"{out}__more"
        out = f"{out}__{part}" if out else part
    return re.sub(r"\W", "_", out)
