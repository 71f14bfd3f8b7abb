"""Rows: the outer indices over which all stages of a program are independent, so that one nest can compute them.

A layer norm over the last dimension of `[batch, tokens, features]` has `batch * tokens` rows: each of its stages
computes one row from that row of the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages
from metasched.ir.source import Name, Read, Stage

# A dimension of an intermediate value: which index of the result it goes along, by its name; None where by none.
_Labels = tuple[str | None, ...]


def row_extents(stages: Stages) -> tuple[int, ...]:
    """The extents of the indices of the last stage that every stage goes along, longer than one element."""
    final = stages.stages[-1]
    labels: dict[str, _Labels] = {final.buffer: tuple(axis.name for axis in final.axes)}
    computed = {name for stage in stages.stages for name in stage.targets}
    for stage in reversed(stages.stages):
        own = next((labels[name] for name in stage.targets if name in labels), None)
        if own is None:
            return ()
        along = dict(zip((axis.name for axis in stage.axes), own, strict=True))
        for read in reads(stage.value):
            if read.buffer in computed:
                met = _labels(read, along)
                before = labels.get(read.buffer, met)
                labels[read.buffer] = tuple(a if a == b else None for a, b in zip(before, met, strict=True))
    extents = stages.extents(final)
    common = set.intersection(*(set(_stage_labels(stage, labels)) for stage in stages.stages))
    return tuple(n for axis, n in extents.items() if axis in common and n > 1)


def _labels(read: Read, along: Mapping[str, str | None]) -> _Labels:
    return tuple(along.get(index.name) if isinstance(index, Name) else None for index in read.indices)


def _stage_labels(stage: Stage, labels: Mapping[str, _Labels]) -> list[str]:
    return [label for name in stage.targets for label in labels.get(name, ()) if label is not None]


def count_rows(stages: Stages) -> int:
    """How many rows there are: 1 where some stage needs all of another."""
    return math.prod(row_extents(stages))
