"""A program at several lengths as one of fixed sizes: it computes all that there is room for.

What lies beyond the length is computed from what lies beyond it there, and means nothing. So a reduction takes only
the terms that are there, and an index that depends on the length stays inside of what it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from metasched.dtypes import INDEX, DType
from metasched.graph.fusion.expressions import map_reads, reads
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.growing.expressions import LengthReader, clamp_index, reads_of
from metasched.graph.growing.sizes import LengthDependence, Lengths
from metasched.graph.text import fresh_name
from metasched.graph.value_type import ValueType
from metasched.ir.program import Program
from metasched.ir.source import Read, SourceExpr, Stage
from metasched.support.data_classes import dataclass

_LENGTH = "length"


@dataclass(frozen=True)
class GrownProgram:
    """A program of fixed sizes, and whether its last input is the length."""

    program: Program
    reads_length: bool


def grown_program(
    samples: Sequence[Program], given: Mapping[str, ValueType], consts: frozenset[str], lengths: Lengths
) -> GrownProgram:
    """The program for all lengths, by those of a node at the samples.

    `given` are the types of its inputs and outputs as they are to be, by their names in it; `consts` the inputs that
    are constants: what was one and is none depends on the length. Raises LengthDependence where the programs differ in
    more than numbers that grow with the length.
    """
    moving = frozenset(buffer.name for buffer in samples[0].inputs if buffer.const) - consts
    if all(program == samples[0] for program in samples[1:]) and not moving and _types(samples[0]) == given:
        return GrownProgram(samples[0], reads_length=False)
    parts = [stages_of(program) for program in samples]
    first = parts[0]
    if first is None or any(part is None for part in parts):
        raise LengthDependence("its sizes have names")
    known = [part for part in parts if part is not None]
    if any(len(part.stages) != len(first.stages) or part.inputs != first.inputs for part in known):
        raise LengthDependence("it computes something else at some lengths than at others")
    types = {name: given.get(name) or _type(name, known, lengths) for name in first.types}
    name = fresh_name(_LENGTH, types, "_")
    types[name] = ValueType(INDEX, ())
    unsure = {*moving, name}
    stages: list[Stage] = []
    for found in zip(*(part.stages for part in known), strict=True):
        stages.append(_stage(found, types, name, unsure, lengths))
        if reads_of(stages[-1].value, unsure):
            unsure.update(stages[-1].targets)
    reading = any(read.buffer == name for stage in stages for read in reads(stage.value))
    made = Stages(types, (*first.inputs, name) if reading else first.inputs, consts, first.outputs, tuple(stages))
    return GrownProgram(program_of(made, samples[0].name), reading)


def _types(program: Program) -> Mapping[str, ValueType]:
    stages = stages_of(program)
    return {} if stages is None else {name: stages.types[name] for name in (*stages.inputs, *stages.outputs)}


def _type(name: str, parts: Sequence[Stages], lengths: Lengths) -> ValueType:
    """The type of an intermediate buffer."""
    shapes = [part.types[name].shape for part in parts]
    offsets = lengths.offsets(shapes)
    shape = [n if b is None else lengths.longest + b for n, b in zip(shapes[0], offsets, strict=True)]
    return ValueType(parts[0].types[name].dtype, tuple(shape))


def _stage(
    samples: Sequence[Stage], types: Mapping[str, ValueType], name: str, unsure: Collection[str], lengths: Lengths
) -> Stage:
    """One stage for those at the samples; indices that read data stay inside, where that was sure of constants."""
    first = samples[0]
    if any(stage.targets != first.targets or stage.axes != first.axes for stage in samples):
        raise LengthDependence("it computes something else at some lengths than at others")
    dtype = types[first.buffer].dtype
    reader = LengthReader(lengths, name, dtype if dtype.is_float else DType.F32)
    value: SourceExpr = reader.join_parts([stage.value for stage in samples])
    # Conditions that kept indices inside may be others now.
    changed = value != first.value or reads_of(value, unsure)

    def inside(read: Read) -> SourceExpr:
        pairs = zip(read.indices, types[read.buffer].shape, strict=True)
        return replace(read, indices=tuple(clamp_index(i, n) if changed and any(reads(i)) else i for i, n in pairs))

    return replace(first, value=map_reads(value, inside))
