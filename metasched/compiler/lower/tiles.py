"""Accumulators in tile registers: what the output of a tensor intrinsic with tiles is while its reduction runs.

A tile register is one whole output. It is numbered by the unrolled loops between the reduction and the intrinsic's
nest, and the numbers of accumulators that live at the same time differ.
"""

from __future__ import annotations

from math import prod

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import Assign, NestLoop, Path
from metasched.compiler.lower.nest import loops as loops_in
from metasched.compiler.lower.storage import Budget, Storage
from metasched.ir.integers.affine import ZERO, const, free_vars_of, simplify
from metasched.ir.nodes import Binary, BinOp, Const, Expr, LoopKind, Var
from metasched.schedule.tensor import intrinsics
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Tiles:
    """Tile registers for the output of the nest of loop `nest`: `count` of them, from number `first` on."""

    nest: NestLoop
    indices: tuple[Expr, ...]
    first: int
    count: int

    def storage(self, name: str, like: Storage) -> Storage:
        """The array of all tile registers up to the last one."""
        rows = tuple(_loop_extent(self.nest, index) for index in self.indices[1:])
        shape = (self.first + self.count, *rows)
        return Storage(name, like.dtype, shape, (ZERO,) * len(shape), ArrayKind.TILE, tuple(range(len(shape))))


def find_tile_nest(inner: Path) -> NestLoop | None:
    """The loop of a nest by an intrinsic with tiles, where an update is in one."""
    found = next((loop for loop in inner if loop.tensor is not None), None)
    return found if found is not None and found.tensor and intrinsics()[found.tensor].tiles else None


def tiles_for(update: Assign, nest: NestLoop, loop: NestLoop, path: Path, inner: Path, budget: Budget) -> Tiles | None:
    """Tile registers for `update` while `loop` runs; None where its outputs are not known, or too many.

    Other threads, and functions that are called, have tile registers of their own: no parallel loop is inside.
    """
    if any(x.kind is LoopKind.PARALLEL for x in loops_in(loop)):
        return None
    outside = inner[: next(n for n, x in enumerate(inner) if x is nest)]
    used = free_vars_of(update.indices)
    apart = [x for x in outside if x.var in used]
    if not all(x.unroll and not x.clips for x in apart):
        return None
    count = prod(x.extent for x in apart)
    if count > budget.remaining_registers((*path, loop)):
        return None
    first = budget.used_registers((*path, loop))
    budget.take_registers((*path, loop), count)
    number: Expr = const(first)
    for n, x in enumerate(apart):
        step = const(prod(y.extent for y in apart[n + 1 :]))
        number = Binary(BinOp.ADD, number, Binary(BinOp.MUL, Var(x.var), step))
    rows = (Var(x.var) for x in loops_in(nest) if x.var in used)
    return Tiles(nest, (simplify(number), *rows), first, count)


def starts_at_zero(start: Assign) -> bool:
    """Whether a reduction starts from zero, which needs no memory."""
    return isinstance(start.begins, Const) and start.begins.value == 0


def _loop_extent(nest: NestLoop, index: Expr) -> int:
    assert isinstance(index, Var)
    return next(x.extent for x in loops_in(nest) if x.var == index.name)


__all__ = ["Tiles", "find_tile_nest", "starts_at_zero", "tiles_for"]
