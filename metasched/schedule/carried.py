"""Carried loops as what they are run as: each element goes on from the one before.

Of `for j in 64: for k in 64: Y[j] += X[k] if k <= j else 0`, both loops carried, iteration `j` adds the term `k = j` to
the element before. That is no well-formed program, as a block may not read what it writes: only what lowers or
estimates a program looks at it in this form.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, free_vars, simplify, substitute
from metasched.ir.nodes import (
    Annotation,
    Binary,
    BinOp,
    Block,
    Expr,
    For,
    Func,
    Load,
    LoopKind,
    Select,
    Stmt,
    Var,
)
from metasched.ir.running import NotRunning, RunningReduction, running_reduction
from metasched.schedule.annotation import known_annotations


def in_carried_form(func: Func) -> Func:
    """`func` with each nest of carried loops as it is run; those that are no running reduction any more stay."""
    for block in query.blocks(func):
        path = query.loops_above(func, block.name)
        if any(loop.kind is LoopKind.CARRIED for loop in path):
            func = _carry(func, block, path)
    return func


def as_if_carried(func: Func) -> Func:
    """A program with each running reduction as it is run where its loops are carried, whether they are or not."""
    for block in query.blocks(func):
        func = _carry(func, block, query.loops_above(func, block.name))
    return func


def carried_by(block: Block, loops: tuple[For, ...]) -> tuple[For, For] | None:
    """The loops over the elements and over the terms of a running reduction that goes on from element to element, of
    those around a block; None where it cannot be run so.
    """
    try:
        scan = running_reduction(block)
    except NotRunning:
        return None
    bound = dict(zip((it.name for it in block.iters), block.bindings, strict=True))
    loop_of = {loop.var: loop for loop in loops}
    ends = [bound[scan.along.name], bound[scan.over.name]]
    found = [loop_of.get(end.name) for end in ends if isinstance(end, Var)]
    if scan.is_reverse or len(found) != 2 or found[0] is None or found[1] is None:
        return None
    guarded = frozenset[str]().union(*map(free_vars, block.guards))
    return None if guarded & {found[0].var, found[1].var} else (found[0], found[1])


def _carry(func: Func, block: Block, path: tuple[For, ...]) -> Func:
    found = carried_by(block, path)
    if found is None:
        return func
    along, over = found
    body: Stmt = _step_block(block, running_reduction(block))
    for loop in reversed(path[path.index(min(found, key=path.index)) :]):
        if loop is not over:
            body = replace(loop, kind=LoopKind.SERIAL if loop is along else loop.kind, body=body)
    return query.replace_stmt(func, min(found, key=path.index), body)


def _step_block(block: Block, scan: RunningReduction) -> Block:
    """The block that adds the newest term of each element to the element before."""
    along, over = Var(scan.along.name), scan.over.name
    before = simplify(Binary(BinOp.SUB, along, ONE))
    index = tuple(substitute(e, {along.name: before}) for e in block.store.indices)
    last = Load(block.store.buffer, index, block.store.value.dtype)
    term = substitute(scan.term, {over: before if scan.leaves_out_itself else along})
    first = scan.reducer.identity(term.dtype) if scan.leaves_out_itself else term
    value: Expr = Select(Binary(BinOp.GT, along, ZERO), Binary(scan.reducer.operation, last, term), first)
    kept = [(it, b) for it, b in zip(block.iters, block.bindings, strict=True) if it.name != over]
    return replace(
        block,
        iters=tuple(it for it, _ in kept),
        bindings=tuple(b for _, b in kept),
        store=replace(block.store, value=value),
        reducer=None,
        init=None,
        annotations=tuple(a for a in block.annotations if not _is_about_sums(a)),
    )


def _is_about_sums(annotation: Annotation) -> bool:
    return known_annotations()[annotation.key].of_sums
