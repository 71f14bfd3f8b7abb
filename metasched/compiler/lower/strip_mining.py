"""A vectorised loop around other loops becomes a serial loop over its strips, and a vector loop of one strip.

So what is inside works on one vector at a time, and its accumulators and intermediates are single vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.compiler.lower.nest import (
    Assign,
    NameSupply,
    NestLoop,
    NestStmt,
    When,
    assigns,
    loops,
    map_children,
)
from metasched.errors import BuildError
from metasched.ir.integers.affine import const, free_vars, simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Expr, LoopKind, Var


def split_strips(stmt: NestStmt, names: NameSupply) -> NestStmt:
    """The nest with each vectorised loop around others as a serial loop over strips, and vector loops of one strip.

    Raises BuildError for a vectorised or a parallel loop inside a vectorised one, or around a reduction over it.
    """
    stmt = map_children(stmt, lambda child: split_strips(child, names))
    if not isinstance(stmt, NestLoop) or stmt.kind in (LoopKind.SERIAL, LoopKind.SCATTERED):
        return stmt
    _require_independent(stmt)
    if not stmt.is_vector:
        return stmt
    for inner in loops(stmt.body):
        if inner.kind is not LoopKind.SERIAL:
            raise BuildError(
                f"{inner.kind.value} loop inside a vectorized loop", f"`{inner.var}` is inside `{stmt.var}`"
            )
    if stmt.extent <= stmt.lanes or isinstance(stmt.body, Assign) or (stmt.unroll and _is_straight_code(stmt.body)):
        return stmt
    return split_strip(stmt, names)


def _require_independent(loop: NestLoop) -> None:
    for _, a in assigns(loop):
        reduces = a.reducer is not None and loop.var in a.reduction - a.spatial
        if reduces and loop.is_vector and isinstance(loop.body, Assign):
            continue  # each lane has a sum of its own
        if reduces:
            raise BuildError(
                f"{loop.kind.value} loop carries a reduction",
                f"`{a.block}` reduces over `{loop.var}`; rfactor it first",
            )
        if loop.is_vector and all(loop.var not in free_vars(i) for i in a.indices):
            raise BuildError(
                "vectorized loop writes one element",
                f"`{a.block}` writes the same element of `{a.array}` in every lane of `{loop.var}`",
            )


def _is_straight_code(body: NestStmt) -> bool:
    """Whether only unrolled loops are inside, so that repeating all of it makes straight code."""
    return isinstance(body, Assign) or (isinstance(body, NestLoop) and body.unroll and _is_straight_code(body.body))


def split_strip(loop: NestLoop, names: NameSupply) -> NestLoop:
    """A vectorised loop as a loop over its strips around a vector loop of one."""
    strip = names.fresh(f"{loop.var}_strip")
    position = Binary(BinOp.ADD, Binary(BinOp.MUL, Var(strip), const(loop.lanes)), Var(loop.var))
    tail = (Binary(BinOp.LT, position, const(loop.extent)),) if loop.extent % loop.lanes else ()
    body = substitute_loops(loop.body, {loop.var: position}, tail)
    inner = replace(loop, extent=loop.lanes, unroll=True, body=body)
    return NestLoop(strip, loop.steps, inner, LoopKind.SERIAL, 1, loop.unroll, loop.limit)


def substitute_loops(body: NestStmt, values: Mapping[str, Expr], guards: tuple[Expr, ...] = ()) -> NestStmt:
    """`body` with loop variables replaced, wherever they are read, and `guards` added to every assignment."""
    if not values and not guards:
        return body
    used = {var: free_vars(value) for var, value in values.items()}

    def moved(e: Expr) -> Expr:
        return simplify(substitute(e, values))

    def rename(found: frozenset[str]) -> frozenset[str]:
        return frozenset[str]().union(*(used.get(var, {var}) for var in found))

    def rewrite(a: Assign) -> NestStmt:
        positions = a.positions
        if positions is not None:
            indices = tuple(map(moved, positions.indices))
            positions = replace(positions, indices=indices, value=substitute(positions.value, values))
        return replace(
            a,
            indices=tuple(map(moved, a.indices)),
            value=substitute(a.value, values),
            guards=tuple(map(moved, a.guards)) + guards,
            spatial=rename(a.spatial),
            reduction=rename(a.reduction),
            positions=positions,
            wanted=tuple(map(moved, a.wanted)),
        )

    def rewrite_all(stmt: NestStmt) -> NestStmt:
        if isinstance(stmt, Assign):
            return rewrite(stmt)
        stmt = map_children(stmt, rewrite_all)
        if isinstance(stmt, When):
            return replace(stmt, conds=tuple(map(moved, stmt.conds)))
        if isinstance(stmt, NestLoop) and (stmt.clips or stmt.place is not None):
            place = None if stmt.place is None else moved(stmt.place)
            return replace(stmt, clips=tuple(map(moved, stmt.clips)), place=place)
        return stmt

    return rewrite_all(body)
