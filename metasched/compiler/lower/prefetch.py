"""Prefetches what a loop reads some iterations ahead.

The loop at iteration `n` asks for the lines that iteration `n + distance` reads: in the first pass of the serial loops
inside it, and all of the unrolled and vectorised ones. Elements are asked for one by one, and emission asks for each
line once. Addresses past the end of an array are only hints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from metasched.compiler import lir
from metasched.ir.affine import ZERO, const, free_vars, simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Expr, Load, Var

_Loops = tuple[lir.Loop | lir.VectorLoop, ...]


def ahead_of(
    var: str,
    distance: int,
    body: lir.LStmt,
    in_memory: Callable[[str], bool],
    ordered: Callable[[Expr, _Loops], Expr],
) -> lir.LStmt:
    """`body` of the loop over `var`, after statements that ask for what it reads `distance` iterations later.

    `in_memory` says which arrays are; `ordered` puts an index in the order of the loops around and those given.
    """
    later = Binary(BinOp.ADD, Var(var), const(distance))
    asked: dict[lir.LStmt, None] = {}
    for loops, load in _reads(body, ()):
        index = load.indices[0]
        if var not in free_vars(index) or not in_memory(load.buffer) or any(isinstance(x, Load) for x in index.walk()):
            continue
        kept = tuple(x for x in loops if x.var in free_vars(index) and _is_straight(x))
        values: dict[str, Expr] = {x.var: ZERO for x in loops if x not in kept}
        values[var] = later
        place = ordered(simplify(substitute(index, values)), kept)
        asked[_around(kept, lir.Prefetch(load.buffer, place))] = None
    return lir.Body((*asked, body)) if asked else body


def _is_straight(loop: lir.Loop | lir.VectorLoop) -> bool:
    """Whether all iterations are asked for: the extent may not depend on anything that runs."""
    if free_vars(loop.extent):
        return False
    return isinstance(loop, lir.VectorLoop) or loop.mode is lir.LoopMode.UNROLLED


def _around(loops: _Loops, stmt: lir.LStmt) -> lir.LStmt:
    for loop in reversed(loops):
        if isinstance(loop, lir.VectorLoop):
            stmt = lir.VectorLoop(loop.var, loop.extent, loop.lanes, loop.unroll_strips, stmt)
        else:
            stmt = lir.Loop(loop.var, loop.extent, loop.mode, stmt)
    return stmt


def _reads(stmt: lir.LStmt, loops: _Loops) -> Iterator[tuple[_Loops, Load]]:
    """Every read, with the loops around it from the body on."""
    inner = (*loops, stmt) if isinstance(stmt, lir.Loop | lir.VectorLoop) else loops
    for child in stmt.children():
        if isinstance(child, lir.LStmt):
            yield from _reads(child, inner)
        elif not isinstance(stmt, lir.Prefetch):
            yield from ((inner, node) for node in child.walk() if isinstance(node, Load))
