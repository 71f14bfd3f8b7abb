"""What limits a program: memory, element by element or in reductions, or arithmetic on what it reads repeatedly."""

from __future__ import annotations

from enum import IntEnum

from metasched.graph.fusion.expressions import operations, reads
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.ir.source import Name, Stage
from metasched.support.by_identity import remembered_by_identity


class Kind(IntEnum):
    """What a program does, from what costs least for each byte of memory to what costs most."""

    MOVEMENT = 0  # moves elements, and computes nothing
    ELEMENTWISE = 1  # computes each element of its results from a few others
    REDUCTION = 2  # reduces what it reads, each element of which it reads about once
    ANCHOR = 3  # reduces products or windows, and reads elements again and again


@remembered_by_identity
def kind_of(stages: Stages) -> Kind:
    """What limits the program of some stages: the heaviest of them."""
    if any(is_anchor(stages, stage) for stage in stages.stages):
        return Kind.ANCHOR
    if any(is_reduction(stage) for stage in stages.stages):
        return Kind.REDUCTION
    return Kind.ELEMENTWISE if any(operations(stage.value) for stage in stages.stages) else Kind.MOVEMENT


def is_reduction(stage: Stage) -> bool:
    """Whether a stage joins several elements."""
    return any(n > 1 for n in reduced_extents(stage).values())


def is_anchor(stages: Stages, stage: Stage) -> bool:
    """Whether a stage is a reduction that reads elements again, for another index of its result: products, windows."""
    inner = {axis for axis, extent in reduced_extents(stage).items() if extent > 1}
    outer = {axis for axis, extent in stages.extents(stage).items() if extent > 1} - inner
    for read in reads(stage.value):
        used = {node.name for index in read.indices for node in index.walk() if isinstance(node, Name)}
        if used & inner and outer - used:
            return True
    return False
