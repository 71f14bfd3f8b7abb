"""The order in which a register tile uses its operands, where they do not all fit beside its accumulators.

A tile of accumulators multiplies each of some vectors by each of some broadcasts. Registers hold the smaller set of the
two, and one operand of the larger set at a time: the loop over the larger set is the outer one, and each of its
operands is used up before the next is loaded. Where accumulators leave no room for that either, the loop over the
smaller set is the outer one: each of its operands takes the one register that is left, and the instructions read the
other operands from memory, again in every iteration. That takes more loads, but no accumulator is spilled.

Terms of a sum keep their order: every accumulator has the same sum as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import Assign, NameSupply, NestLoop, NestStmt, Path, map_children, wrap_loops
from metasched.compiler.lower.registers import registers_needed
from metasched.compiler.lower.storage import Storage
from metasched.compiler.lower.strip_mining import split_strip
from metasched.compiler.policy import OperandOrder, operand_order
from metasched.ir.integers.affine import free_vars_of
from metasched.ir.nodes import Load
from metasched.support.data_classes import dataclass
from metasched.target import Target


def order_operands(stmt: NestStmt, storages: Mapping[str, Storage], target: Target, names: NameSupply) -> NestStmt:
    """`stmt` with the loops of its register tiles in the order that takes the fewest registers, where these are
    short."""
    tile = _find_tile(stmt, storages)
    if tile is None:
        return map_children(stmt, lambda child: order_operands(child, storages, target, names))
    storage = storages[tile.update.array]
    return tile.order_update(tile.accumulators(storage, target), target, target.lanes(storage.dtype), names)


@dataclass(frozen=True)
class _Tile:
    """Unrolled loops around an update of accumulators by two operands; the last loop is over lanes."""

    loops: Path
    update: Assign
    vector: Load
    broadcast: Load

    @property
    def lanes(self) -> NestLoop:
        return self.loops[-1]

    def accumulators(self, storage: Storage, target: Target) -> int:
        return registers_needed(storage.size, self.lanes.lanes, storage.dtype, target)

    def order_update(self, accumulators: int, target: Target, lanes: int, names: NameSupply) -> NestStmt:
        """The update in the order that suits the registers left beside so many accumulators, each of so many lanes."""
        narrow = self._narrow_to_registers(lanes)
        order = operand_order(*narrow.operand_counts(), accumulators, target.registers)
        if order is OperandOrder.AS_WRITTEN:
            return wrap_loops(self.loops, self.update)
        if order is OperandOrder.BY_BROADCASTS:
            return self.order_by_operand(self.broadcast)
        strips = narrow.split_into_strips(names)
        if order is OperandOrder.BY_VECTORS:
            return strips.order_by_operand(strips.vector)
        return strips.order_and_reread(
            strips.vector if order is OperandOrder.REREADING_BROADCASTS else strips.broadcast
        )

    def _narrow_to_registers(self, lanes: int) -> _Tile:
        """The tile with a register at a time in its last loop, as each is an operand, where vectors are wider."""
        if self.lanes.lanes <= lanes or self.lanes.extent % lanes:
            return self
        return replace(self, loops=(*self.loops[:-1], replace(self.lanes, lanes=lanes)))

    def operand_counts(self) -> tuple[int, int]:
        """How many vectors and broadcasts a term has; none where one loop is over both."""
        vectors, broadcasts = self._operand_loops(self.vector), self._operand_loops(self.broadcast)
        if set(vectors) & set(broadcasts):
            return 0, 0
        return prod(loop.steps for loop in vectors), prod(loop.steps for loop in broadcasts)

    def order_by_operand(self, operand: Load) -> NestStmt:
        """Use each element of an operand with all that it is multiplied by, before the next one."""
        return self._nest_with(self._operand_steps(operand), operand)

    def order_and_reread(self, operand: Load) -> NestStmt:
        """Order as `order_by_operand` does, and have every iteration read the other operands from memory again."""
        *outer, last = self._operand_steps(operand)
        return self._nest_with((*outer, replace(last, rereads=True)), operand)

    def split_into_strips(self, names: NameSupply) -> _Tile:
        """The tile with a vector in its last loop, and a loop over its vectors around that."""
        if self.lanes.steps == 1:
            return self
        strip = split_strip(replace(self.lanes, body=self.update), names)
        inner = strip.body
        assert isinstance(inner, NestLoop)
        update = inner.body
        assert isinstance(update, Assign)
        vector = next(load for load in update.reads if inner.var in _index_variables(load))
        return replace(self, loops=(*self.loops[:-1], strip, inner), update=update, vector=vector)

    def _operand_loops(self, operand: Load) -> Path:
        """The loops that an operand of one term depends on."""
        used = _index_variables(operand) - self.update.reduction
        return tuple(loop for loop in self.loops if loop.var in used)

    def _operand_steps(self, operand: Load) -> Path:
        """The loops over an operand of one term, whole vectors counting as one."""
        return tuple(loop for loop in self._operand_loops(operand) if loop is not self.lanes)

    def _nest_with(self, outer: Path, operand: Load) -> NestStmt:
        """A term of the sums at a time, with the loops over an operand, as `outer`, around the others."""
        terms = tuple(loop for loop in self.loops if loop.var in self.update.reduction)
        apart = (*terms, *self._operand_steps(operand))
        return wrap_loops([*terms, *outer, *(loop for loop in self.loops if loop not in apart)], self.update)


def _index_variables(load: Load) -> frozenset[str]:
    return free_vars_of(load.indices)


def _find_tile(body: NestStmt, storages: Mapping[str, Storage]) -> _Tile | None:
    """The tile that a statement is, if it is straight code that updates accumulators."""
    loops: list[NestLoop] = []
    while isinstance(body, NestLoop):
        if (
            not (body.unroll or body.steps == 1)
            or body.clips
            or body.prefetch
            or body.prefetch_tile
            or body.tensor is not None
        ):
            return None
        loops.append(body)
        body = body.body
    if not isinstance(body, Assign) or body.reducer is None or body.guards or not loops or not loops[-1].is_vector:
        return None
    lanes, reads = loops[-1], list(dict.fromkeys(body.reads))
    if storages[body.array].kind is not ArrayKind.REGISTER or len(reads) != 2:
        return None
    if lanes.steps > 1 and lanes.extent % lanes.lanes:
        return None
    if lanes.var in body.reduction:
        return None  # each lane has a sum of its own
    vectors = [load for load in reads if lanes.var in _index_variables(load)]
    broadcasts = [load for load in reads if load not in vectors]
    if len(vectors) != 1 or any(storages[load.buffer].kind is ArrayKind.REGISTER for load in reads):
        return None
    return _Tile(tuple(loops), body, *vectors, *broadcasts)


__all__ = ["order_operands"]
