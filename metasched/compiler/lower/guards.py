"""Turns guards into clipped loops, or into conditions as far out as they can be decided.

A condition that every statement inside a loop has, and that is affine in the loop's variable, clips its extent:
`for i1 in range(min(8, 127 - i0*8))`. A loop that is unrolled keeps its extent, and so does one whose clip would
differ between the lanes of a vector; there the condition stays, just inside the innermost loop it depends on.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.compiler.lower.nest import Assign, Many, NestLoop, NestRegion, NestStmt, When, many
from metasched.ir.affine import ONE, NotAffine, as_int, coefficient, const, free_vars, simplify
from metasched.ir.nodes import Binary, BinOp, Expr, LoopKind, Var

Conds = tuple[Expr, ...]


def place_guards(stmt: NestStmt) -> NestStmt:
    """`stmt` with no guards left on assignments."""
    body, pending = _resolve(stmt, frozenset())
    return _when(pending, body)


def _when(conds: Conds, body: NestStmt) -> NestStmt:
    return When(conds, body) if conds else body


def _resolve(stmt: NestStmt, lanes: frozenset[str]) -> tuple[NestStmt, Conds]:
    """`stmt`, and the conditions that all of it is under and that the loops inside do not decide."""
    if isinstance(stmt, Assign):
        return (replace(stmt, guards=()) if stmt.guards else stmt), stmt.guards
    if isinstance(stmt, Many):
        return _sequence([_resolve(child, lanes) for child in stmt.stmts])
    if isinstance(stmt, NestRegion):
        return _phases([_resolve(child, lanes) for child in stmt.phases])
    if isinstance(stmt, When):
        body, pending = _resolve(stmt.body, lanes)
        return When(stmt.conds, body), pending
    assert isinstance(stmt, NestLoop)
    body, pending = _resolve(stmt.body, lanes | {stmt.var} if stmt.is_vector else lanes)
    inside = [g for g in pending if stmt.var in free_vars(g)]
    outside = tuple(g for g in pending if stmt.var not in free_vars(g))
    clips: list[Expr] = []
    kept: list[Expr] = []
    for cond in inside:
        clip = None if stmt.unroll or stmt.kind is LoopKind.PARALLEL else _clip(cond, stmt.var)
        if clip is None or not lanes.isdisjoint(free_vars(clip)):
            kept.append(cond)
        else:
            clips.append(clip)
    return replace(stmt, body=_when(tuple(kept), body), clips=tuple(clips)), outside


def _sequence(children: list[tuple[NestStmt, Conds]]) -> tuple[NestStmt, Conds]:
    shared = _shared(children)
    out: list[NestStmt] = []
    group: list[NestStmt] = []
    under: Conds = ()
    for stmt, conds in children:
        own = tuple(g for g in conds if g not in shared)
        if group and set(own) != set(under):
            out.append(_when(under, many(group)))
            group = []
        group.append(stmt)
        under = own
    if group:
        out.append(_when(under, many(group)))
    return many(out), shared


def _phases(children: list[tuple[NestStmt, Conds]]) -> tuple[NestStmt, Conds]:
    """As `_sequence`, where each statement stays one by itself."""
    shared = _shared(children)
    own = [tuple(g for g in conds if g not in shared) for _, conds in children]
    return NestRegion(tuple(_when(conds, stmt) for (stmt, _), conds in zip(children, own, strict=True))), shared


def _shared(children: list[tuple[NestStmt, Conds]]) -> Conds:
    return tuple(g for g in children[0][1] if all(g in conds for _, conds in children)) if children else ()


def _clip(cond: Expr, var: str) -> Expr | None:
    """The extent that `cond` leaves to `var`, when it is an upper limit on it."""
    if not (isinstance(cond, Binary) and cond.op in _UPPER):
        return None
    flip, slack = _UPPER[cond.op]
    a, b = (cond.b, cond.a) if flip else (cond.a, cond.b)
    try:
        # step * var + rest < slack
        difference = simplify(Binary(BinOp.SUB, a, b))
        step = as_int(coefficient(difference, var))
    except NotAffine:
        return None
    if step is None or step <= 0:
        return None
    scaled = Binary(BinOp.MUL, Var(var), const(step))
    room = Binary(BinOp.SUB, scaled, difference)
    if slack:
        room = Binary(BinOp.ADD, room, ONE)
    return simplify(room if step == 1 else Binary(BinOp.CEILDIV, room, const(step)))


# Comparison -> whether the sides are to be swapped, and what is added to the right to make it strict.
_UPPER = {BinOp.LT: (False, 0), BinOp.LE: (False, 1), BinOp.GT: (True, 0), BinOp.GE: (True, 1)}
