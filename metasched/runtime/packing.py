"""Weights packed ahead of time: the part of a program that depends on its weights alone is run once.

A scheduled program is divided in two. The *prologue* is the statements at its root that depend on weights only: copies
in a packed layout, transformed filters. Their results become arguments of the *main* part, arrays in the layout that
the schedule gave them. Both are compiled as they are, so that together they give the bits of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from metasched.errors import KernelError
from metasched.ir import query
from metasched.ir.nodes import Block, Buffer, Func, Load, Scope, Seq, Stmt, Var, seq


@dataclass(frozen=True)
class Division:
    """`prologue` takes weights, and its outputs are the last inputs of `main`. `held` are weights that `main` reads
    as they are: inputs of its own, between those of the caller and the packed ones.
    """

    prologue: Func
    main: Func
    held: tuple[str, ...]


def divide(func: Func, weights: Collection[str]) -> Division:
    """The program in two, where `weights` are known ahead; raises KernelError when they alone determine nothing."""
    stmts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    ahead = _ahead(func, stmts, weights)
    before, after = [stmts[n] for n in ahead], [s for n, s in enumerate(stmts) if n not in ahead]
    computed = {name for stmt in before for name in _written(stmt)}
    used = {name for stmt in after for name in _read(stmt)}
    packed = [b for b in func.temps if b.name in computed & used]
    if not packed:
        raise KernelError(_nothing(func, weights))
    read = {name for stmt in before for name in _read(stmt)}
    given = tuple(b for b in func.inputs if b.name in weights and b.name in read)
    held = tuple(b for b in func.inputs if b.name in weights and b.name in used)
    # An argument is in the machine's memory, wherever the schedule would have had it.
    arrays = tuple(replace(b, scope=Scope.GLOBAL) for b in packed)
    prologue = Func(
        f"{func.name}_pack",
        given,
        (),
        tuple(b.name for b in given),
        arrays,
        tuple(b for b in func.temps if b.name in computed and b not in packed),
        seq(before),
    )
    left = tuple(b for b in func.inputs if b.name not in weights)
    main = replace(
        func,
        inputs=(*left, *held, *arrays),
        order=(*(n for n in func.order if n not in weights), *(b.name for b in (*held, *arrays))),
        temps=tuple(b for b in func.temps if b.name not in computed),
        body=seq(after),
    )
    return Division(prologue, main, tuple(b.name for b in held))


def _ahead(func: Func, stmts: Sequence[Stmt], weights: Collection[str]) -> tuple[int, ...]:
    """The statements that depend on the weights alone: the largest set that needs nothing outside it."""
    scalars = {s.name for s in func.scalars}
    able = {b.name for b in func.temps if _can_be_argument(b)}
    candidates = [n for n, s in enumerate(stmts) if scalars.isdisjoint(_variables(s)) and _written(s) <= able]
    while True:
        elsewhere = {name for n, s in enumerate(stmts) if n not in candidates for name in _written(s)}
        computed = {name for n in candidates for name in _written(stmts[n])} - elsewhere
        known = computed | set(weights)
        kept = [n for n in candidates if _written(stmts[n]) <= computed and _read(stmts[n]) <= known]
        if kept == candidates:
            return tuple(kept) if any(_read(stmts[n]) & set(weights) for n in kept) else ()
        candidates = kept


def _can_be_argument(buffer: Buffer) -> bool:
    return buffer.scope is not Scope.REGISTER and buffer.roll is None


def _written(stmt: Stmt) -> set[str]:
    return {store.buffer for block in query.blocks_under(stmt) for store in block.stores}


def _read(stmt: Stmt) -> set[str]:
    return {node.buffer for node in stmt.walk() if isinstance(node, Load)}


def _variables(stmt: Stmt) -> set[str]:
    return {node.name for node in stmt.walk() if isinstance(node, Var)}


def _nothing(func: Func, weights: Collection[str]) -> str:
    """Why nothing can be packed, and what to schedule instead."""
    names = ", ".join(f"`{b.name}`" for b in func.inputs if b.name in weights)
    says = f"`{func.name}` computes nothing from {names} alone"
    for block in query.blocks(func):
        if _read(block) and _read(block) <= set(weights) and block.store.buffer in {b.name for b in func.temps}:
            return f"{says}, ahead of the rest: {_why_not(func, block)}"
    name = next(b.name for b in func.inputs if b.name in weights)
    reader = next((b.name for b in query.blocks(func) if name in _read(b)), None)
    if reader is None:
        return f"{says}: no block reads it"
    return (
        f'{says}. Schedule a copy of it at the root: `packed = cache_read({reader}, "{name}")`, and '
        f"`transform_layout(packed, ...)` for how it is to lie in memory"
    )


def _why_not(func: Func, block: Block) -> str:
    if not _can_be_argument(func.buffer(block.store.buffer)):
        return f"`{block.store.buffer}` is in registers or rolling. Leave out its set_scope or store_at"
    scalars = [s.name for s in func.scalars if s.name in _variables(block)]
    if scalars:
        return f"`{block.name}` needs the scalar `{scalars[0]}`. Multiply by it in another block"
    return (
        f"`{block.name}` is computed inside a loop around other blocks, or not alone. Leave it at the root, without "
        f"compute_at; what is there can be packed"
    )
