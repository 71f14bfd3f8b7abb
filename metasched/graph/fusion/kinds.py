"""What limits a program: memory, element by element or in reductions, or arithmetic on what it reads repeatedly."""

from __future__ import annotations

from enum import Enum

from metasched.graph.fusion.expressions import operations, reads
from metasched.graph.fusion.stages import Stages
from metasched.ir.source import Reduce, Stage

# An anchor computes so many terms for each element that it reads or writes.
_REUSE = 3.0


class Kind(Enum):
    """What limits a program."""

    MOVEMENT = "moves elements, and computes nothing"
    ELEMENTWISE = "computes each element of its results from a few others"
    REDUCTION = "reduces what it reads, each element of which it reads about once"
    ANCHOR = "reduces products or windows, and reads elements again and again"


def kind_of(stages: Stages) -> Kind:
    """What limits the program of some stages: the heaviest of them."""
    if any(is_anchor(stages, stage) for stage in stages.stages):
        return Kind.ANCHOR
    if any(isinstance(stage.value, Reduce) for stage in stages.stages):
        return Kind.REDUCTION
    return Kind.ELEMENTWISE if any(operations(stage.value) for stage in stages.stages) else Kind.MOVEMENT


def is_anchor(stages: Stages, stage: Stage) -> bool:
    """Whether a stage is a reduction that reads elements again and again."""
    if not isinstance(stage.value, Reduce):
        return False
    names = {read.buffer for read in reads(stage.value)} | {stage.buffer}
    touched = sum(stages.types[name].size for name in names)
    return stages.iterations(stage) >= _REUSE * touched
