"""Terms of register tiles whose rows are there within bounds of their own: those that read padding, and last ones.

Whether a row of the tile has a term is asked in the tile. In unrolled code for several terms, LLVM moves products of
rows that have it in any case behind the branches of later terms (machine sinking), and so keeps what all of them read
in registers; what does not fit beside the accumulators goes to memory and back. So terms of such a tile stay a loop,
which costs a branch for each, unless their loop was unrolled by name. A convolution of 3 x 3 with tiles of 7 x 2 pixels
by 32 channels takes .39 of the time of one with eight terms unrolled (one core of a Zen 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import Assign, NestLoop, NestStmt, Path, map_children
from metasched.compiler.lower.registers import registers_needed
from metasched.compiler.lower.storage import Storage
from metasched.ir.integers.affine import free_vars, free_vars_of
from metasched.target import Target


def roll_terms(stmt: NestStmt, storages: Mapping[str, Storage], target: Target) -> NestStmt:
    """`stmt` with the terms of such tiles in loops, where a tile and its operands do not fit in registers."""
    if isinstance(stmt, NestLoop) and stmt.by_limit:
        inside, update = _unrolled_nest(stmt.body)
        if update is not None and _keeps_operands(stmt, inside, update, storages, target):
            stmt = replace(stmt, unroll=False, by_limit=False)
    return map_children(stmt, lambda child: roll_terms(child, storages, target))


def _unrolled_nest(stmt: NestStmt) -> tuple[Path, Assign | None]:
    """The unrolled loops from here to the one statement in them, if there is one."""
    loops: list[NestLoop] = []
    while isinstance(stmt, NestLoop) and (stmt.unroll or stmt.is_vector):
        loops.append(stmt)
        stmt = stmt.body
    return tuple(loops), stmt if isinstance(stmt, Assign) else None


def _keeps_operands(
    term: NestLoop, inside: Path, update: Assign, storages: Mapping[str, Storage], target: Target
) -> bool:
    """Whether a loop is over terms of a tile with rows that are asked for, whose operands do not fit in registers."""
    if term.var not in update.reduction or storages[update.array].kind is not ArrayKind.REGISTER:
        return False
    rows = {loop.var for loop in inside if loop.var not in update.reduction and not loop.is_vector}
    unrolled = {loop.var for loop in (term, *inside)}
    asked = [free_vars(guard) for guard in update.guards]
    if not any(used & rows and used - unrolled and term.var not in used for used in asked):
        return False
    lanes, storage = max(loop.lanes for loop in (term, *inside)), storages[update.array]
    taken = registers_needed(storage.size, lanes, storage.dtype, target)
    for load in dict.fromkeys(update.reads):
        used = free_vars_of(load.indices)
        if term.var in used and storages[load.buffer].kind is ArrayKind.REGISTER:
            return False  # what is in registers is read by numbers that are known
        taken += prod(loop.steps for loop in inside if loop.var in used - update.reduction)
    return taken > target.registers
