"""Where iteration variables get their extents from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metasched.ir.source import At, Axis, IfElse, Name, Read, Reduce, SourceExpr, SourceNode, Stage
from metasched.ir.source_printer import print_source
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class BareUse:
    """`A[..., i, ...]`: axis `i` stands alone in dimension `dim` of a read.

    `guarded`: a condition around the read uses `axis`, which may therefore not range over all of `dim`.
    """

    axis: str
    dim: int
    guarded: bool
    read: Read

    @property
    def buffer(self) -> str:
        return self.read.buffer


def bare_uses(value: SourceExpr) -> Iterator[BareUse]:
    """The bare uses in an expression, in reading order."""
    return _uses(value, frozenset())


def _uses(e: SourceNode, guards: frozenset[str]) -> Iterator[BareUse]:
    if isinstance(e, IfElse):
        inside = guards | {node.name for node in e.cond.walk() if isinstance(node, Name)}
        yield from _uses(e.then, inside)
        yield from _uses(e.cond, guards)
        yield from _uses(e.otherwise, inside)
        return
    if isinstance(e, Reduce) and e.cond is not None:
        inside = guards | {node.name for node in e.cond.walk() if isinstance(node, Name)}
        yield from _uses(e.operand, inside)
        yield from _uses(e.cond, guards)
        return
    if isinstance(e, Read):
        for dim, index in enumerate(e.indices):
            if isinstance(index, Name):
                yield BareUse(index.name, dim, index.name in guards, e)
    for child in e.children():
        yield from _uses(child, guards)


def stage_axes(stage: Stage) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The spatial and the reduction axes of a stage."""
    return stage.axes, stage.value.axes if isinstance(stage.value, Reduce) else ()


@dataclass(frozen=True)
class Evidence:
    """One reason for an axis to have an extent: a read, or what is said of another cause."""

    extent: int
    cause: Read | str
    at: At

    @property
    def source(self) -> str:
        """What reads after "from" in a message."""
        return self.cause if isinstance(self.cause, str) else f"`{print_source(self.cause)}`"


@dataclass(frozen=True)
class Evidences:
    """Every reason that reads give for the extent of one axis.

    A bare use under a condition on the axis counts only if nothing else determines the extent.
    """

    firm: tuple[Evidence, ...] = ()
    guarded: tuple[Evidence, ...] = ()
    # A read has the axis, but its buffer is itself wrong, so that another error would be noise.
    unknown: bool = False


def evidence_from_uses(axis: str, uses: tuple[BareUse, ...], shapes: Mapping[str, tuple[int, ...] | None]) -> Evidences:
    """The evidence of a stage's reads for the extent of `axis`; `shapes` has the buffers known so far."""
    firm: list[Evidence] = []
    guarded: list[Evidence] = []
    unknown = False
    for use in uses:
        if use.axis != axis:
            continue
        shape = shapes.get(use.buffer)
        if shape is None or use.dim >= len(shape):
            unknown = True
            continue
        evidence = Evidence(shape[use.dim], use.read, use.read.at)
        (guarded if use.guarded else firm).append(evidence)
    return Evidences(tuple(firm), tuple(guarded), unknown)
