"""Intermediate values without dimensions along which they repeat: what is the same in each column is computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.graph.fusion.expressions import map_reads, names_in
from metasched.graph.fusion.stages import Stages
from metasched.ir.source import Read, SourceExpr, Stage

# The dimensions of buffers that are left out.
RepeatedDims = Mapping[str, tuple[int, ...]]


def without_repeated_elements(stages: Stages) -> Stages:
    """Stages whose intermediate values have no dimension that they do not depend on; each keeps one dimension.

    As of `T[i, j] = max[r if I[r] == i](r)`, where the places of a scatter are broadcast along rows.
    """
    types, left_out, made = dict(stages.types), dict[str, tuple[int, ...]](), list[Stage]()
    for stage in stages.stages:
        read = replace(stage, value=map_reads(stage.value, lambda one: _drop_dims(one, left_out)))
        dims = () if set(stage.targets) & set(stages.outputs) else _repeated_dims(read, stages)
        kept = tuple(axis for dim, axis in enumerate(read.axes) if dim not in dims)
        for name in stage.targets if dims else ():
            left_out[name] = dims
            shape = tuple(n for dim, n in enumerate(types[name].shape) if dim not in dims)
            types[name] = replace(types[name], shape=shape)
        made.append(replace(read, axes=kept))
    return replace(stages, types=types, stages=tuple(made))


def _repeated_dims(stage: Stage, stages: Stages) -> tuple[int, ...]:
    """The dimensions of a stage's buffer, of more than one element, that its value does not depend on."""
    used = names_in(stage.value)
    shape = stages.types[stage.buffer].shape
    dims = [dim for dim, axis in enumerate(stage.axes) if shape[dim] > 1 and axis.name not in used]
    return tuple(dims[1:] if len(dims) == len(shape) else dims)


def _drop_dims(read: Read, left_out: RepeatedDims) -> SourceExpr:
    dims = left_out.get(read.buffer, ())
    return replace(read, indices=tuple(index for dim, index in enumerate(read.indices) if dim not in dims))
