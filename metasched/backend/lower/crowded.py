"""In which order a tile uses its operands, where they do not all fit in registers beside its accumulators.

A tile of accumulators multiplies each of some vectors by each of some broadcasts. Registers hold the fewer of them, and
one of the others at a time: so what there is more of is the outer loop, each used up before the next is loaded. Where
accumulators leave no room for that either, operands take turns: what there is fewer of is the outer loop, each takes
the one register that is left, and what it is multiplied by is read from memory by the instructions that use it, again
in every turn. Those are more loads, but no accumulator is spilled.

Terms of a sum that are in straight code come one after the other. They keep their order: every accumulator has the
same sum as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from metasched.backend.lir import ArrayKind
from metasched.backend.lower.nest import Assign, Loop, Names, Nest, Path, around, map_children, with_body
from metasched.backend.lower.registers import Machine, registers_needed
from metasched.backend.lower.storage import Storage
from metasched.backend.lower.strips import split_strip
from metasched.ir.affine import free_vars
from metasched.ir.nodes import Load, LoopKind

# Two operands of one kind and one of the other: with fewer registers, accumulators are spilled.
_BESIDE = 3
# What addresses and the order of instructions take besides.
_SPARE = 2


def order_operands(stmt: Nest, storages: Mapping[str, Storage], machine: Machine, names: Names) -> Nest:
    """`stmt` with the loops of crowded tiles in the order that takes the fewest registers."""
    stmt = map_children(stmt, lambda child: order_operands(child, storages, machine, names))
    if not isinstance(stmt, Loop) or stmt.unroll or stmt.kind is not LoopKind.SERIAL:
        return stmt
    tile = _tile(stmt.body, storages)
    if tile is None:
        return stmt
    free = machine.registers - tile.accumulators(storages[tile.update.array], machine)
    return with_body(stmt, tile.ordered(free, names))


@dataclass(frozen=True)
class _Tile:
    """Unrolled loops around an update of accumulators by two operands; the last loop is over lanes."""

    loops: Path
    update: Assign
    vectors: Load
    broadcasts: Load

    def accumulators(self, storage: Storage, machine: Machine) -> int:
        return registers_needed(storage.size, self.loops[-1].lanes, storage.dtype, machine)

    def ordered(self, free: int, names: Names) -> Nest:
        """With the order that `free` registers besides accumulators ask for."""
        along = [self._along(operand) for operand in (self.vectors, self.broadcasts)]
        vectors, broadcasts = (prod(loop.steps for loop in loops) for loops in along)
        if min(vectors, broadcasts) < 2 or set(along[0]) & set(along[1]) or max(vectors, broadcasts) + _SPARE < free:
            return around(self.loops, self.update)
        strips = self.in_strips(names)
        if free < _BESIDE:
            fewer = strips.vectors if vectors <= broadcasts else strips.broadcasts
            *outer, last = strips.over(fewer)
            return strips.under(fewer, (*outer, replace(last, turns=True)))
        if broadcasts >= vectors:
            return self.under(self.broadcasts, self.over(self.broadcasts))
        return strips.under(strips.vectors, strips.over(strips.vectors))

    def _along(self, operand: Load) -> Path:
        used = frozenset[str]().union(*(free_vars(i) for i in operand.indices)) - self.update.reduction
        return tuple(loop for loop in self.loops if loop.var in used)

    def over(self, operand: Load) -> Path:
        """The loops over an operand, whole vectors counting as one."""
        return tuple(loop for loop in self._along(operand) if loop is not self.loops[-1])

    def under(self, operand: Load, outer: Path) -> Nest:
        """All of it, a term of the sums at a time, with the loops over an operand, as `outer`, around the others."""
        terms = [loop for loop in self.loops if loop.var in self.update.reduction]
        rest = [loop for loop in self.loops if loop not in (*terms, *self.over(operand))]
        return around([*terms, *outer, *rest], self.update)

    def in_strips(self, names: Names) -> _Tile:
        """The tile with a vector in its last loop, and a loop over its vectors around that."""
        lanes = self.loops[-1]
        if lanes.steps == 1:
            return self
        strip = split_strip(replace(lanes, body=self.update), names)
        vector = strip.body
        assert isinstance(vector, Loop)
        update = vector.body
        assert isinstance(update, Assign)
        (vectors,) = (load for load in update.reads if load.buffer == self.vectors.buffer)
        return replace(self, loops=(*self.loops[:-1], strip, vector), update=update, vectors=vectors)


def _tile(body: Nest, storages: Mapping[str, Storage]) -> _Tile | None:
    """What is inside a loop, if it is straight code that updates accumulators."""
    loops: list[Loop] = []
    while isinstance(body, Loop):
        if not (body.unroll or body.steps == 1) or body.clips or body.prefetch or body.tensor is not None:
            return None
        loops.append(body)
        body = body.body
    if not isinstance(body, Assign) or body.reducer is None or body.guards or not loops or not loops[-1].is_vector:
        return None
    lanes, reads = loops[-1], list(dict.fromkeys(body.reads))
    if storages[body.array].kind is not ArrayKind.REGISTER or lanes.extent % lanes.lanes or len(reads) != 2:
        return None
    vectors = [load for load in reads if any(lanes.var in free_vars(i) for i in load.indices)]
    broadcasts = [load for load in reads if load not in vectors]
    if len(vectors) != 1 or any(storages[load.buffer].kind is ArrayKind.REGISTER for load in reads):
        return None
    return _Tile(tuple(loops), body, vectors[0], broadcasts[0])


__all__ = ["order_operands"]
