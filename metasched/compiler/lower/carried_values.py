"""What each iteration of a loop takes over from the one before stays in a register.

`for j in 64: Y[j] = Y[j - 1] + X[j] if j > 0 else X[j]` is what a carried loop becomes. An element read back from
memory as soon as it is written takes four to five cycles, and whether there is one before it is asked in each
iteration. So the first iteration comes before the loop, and a register hands its element on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import (
    Assign,
    NameSupply,
    NestLoop,
    NestStmt,
    join_statements,
    loads,
    map_children,
)
from metasched.compiler.lower.storage import Storage
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.ir.integers.affine import ONE, ZERO, free_vars_of, simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Expr, Load, LoopKind, Select, Var
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class _Step:
    """An iteration of a loop: `operation` of what the one before wrote and `term`, or `first` in the first one."""

    assign: Assign
    operation: BinOp
    term: Expr
    first: Expr


def hand_on_values(
    stmt: NestStmt, storages: Mapping[str, Storage], names: NameSupply
) -> tuple[NestStmt, dict[str, Storage]]:
    """`stmt` with registers for what iterations take over from those before, and their storage by name."""
    made: dict[str, Storage] = {}

    def rewrite(each: NestStmt) -> NestStmt:
        each = map_children(each, rewrite)
        step = _step_of(each) if isinstance(each, NestLoop) else None
        if step is None or not _keeps_values(storages[step.assign.array]):
            return each
        assert isinstance(each, NestLoop)
        name = names.fresh(f"{step.assign.array}.last")
        storage = storages[step.assign.array]
        made[name] = Storage(name, storage.dtype, (1,), (ZERO,), ArrayKind.REGISTER, (0,))
        return _hand_on(each, step, name)

    return rewrite(stmt), made


def _keeps_values(storage: Storage) -> bool:
    """Whether an array is in memory, with its elements in the type that they are computed in."""
    return storage.kind is not ArrayKind.REGISTER and storage.dtype.compute is storage.dtype


def _step_of(loop: NestLoop) -> _Step | None:
    """What a loop around a single statement does, if each iteration goes on from the one before."""
    assign, value = loop.body, loop.body.value if isinstance(loop.body, Assign) else None
    if loop.kind is not LoopKind.SERIAL or loop.extent < 2 or loop.clips or not isinstance(assign, Assign):
        return None
    has_before = Binary(BinOp.GT, Var(loop.var), ZERO)
    if assign.reducer is not None or not isinstance(value, Select) or value.cond != has_before:
        return None
    if not isinstance(value.then, Binary) or loop.var in free_vars_of(assign.guards):
        return None
    before = {loop.var: simplify(Binary(BinOp.SUB, Var(loop.var), ONE))}
    last = Load(assign.array, tuple(substitute(i, before) for i in assign.indices), value.dtype)
    own = [load for load in loads(value) if load.buffer == assign.array]
    if value.then.a != last or own != [last]:
        return None
    return _Step(assign, value.then.op, value.then.b, value.otherwise)


def _hand_on(loop: NestLoop, step: _Step, name: str) -> NestStmt:
    """The first iteration, and a loop of the others, with what they hand on in a register."""
    held = Load(name, (ZERO,), step.assign.value.dtype)

    def iteration(value: Expr, at: Expr) -> NestStmt:
        kept = replace(step.assign, array=name, indices=(ZERO,), value=value)
        both = join_statements([kept, replace(step.assign, value=held)])
        return substitute_loops(both, {loop.var: at})

    others = replace(
        loop,
        extent=loop.extent - 1,
        body=iteration(Binary(step.operation, held, step.term), Binary(BinOp.ADD, Var(loop.var), ONE)),
    )
    return join_statements([iteration(step.first, ZERO), others])
