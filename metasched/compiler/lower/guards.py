"""Turns guards into clipped loops, or into conditions as far out as they can be decided.

A condition that every statement inside a loop has, and that is affine in the loop's variable or a quotient of it, clips
its extent, `for i1 in range(min(8, 127 - i0*8))`, or lets it begin at the first iteration that meets it, where that is
known. A loop that is unrolled keeps its extent, and so does one whose clip would
differ between the lanes of a vector; there the condition stays, just inside the innermost loop it depends on.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.compiler.lower.nest import Assign, Many, NestLoop, NestRegion, NestStmt, When, join_statements
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.ir.integers.affine import ZERO, NotAffine, as_int, const, free_vars, linear, simplify
from metasched.ir.nodes import Binary, BinOp, Expr, LoopKind, Var

Conds = tuple[Expr, ...]


def place_guards(stmt: NestStmt) -> NestStmt:
    """`stmt` with no guards left on assignments."""
    body, pending = _resolve(stmt, frozenset())
    return _guard_body(pending, body)


def _guard_body(conds: Conds, body: NestStmt) -> NestStmt:
    return When(conds, body) if conds else body


def _resolve(stmt: NestStmt, lanes: frozenset[str]) -> tuple[NestStmt, Conds]:
    """`stmt`, and the conditions that all of it is under and that the loops inside do not decide."""
    if isinstance(stmt, Assign):
        return (replace(stmt, guards=()) if stmt.guards else stmt), stmt.guards
    if isinstance(stmt, Many):
        return _group_by_conditions([_resolve(child, lanes) for child in stmt.stmts])
    if isinstance(stmt, NestRegion):
        return _guard_phases([_resolve(child, lanes) for child in stmt.phases])
    if isinstance(stmt, When):
        body, pending = _resolve(stmt.body, lanes)
        return When(stmt.conds, body), pending
    assert isinstance(stmt, NestLoop)
    return _loop(stmt, lanes)


def _loop(stmt: NestLoop, lanes: frozenset[str]) -> tuple[NestStmt, Conds]:
    body, pending = _resolve(stmt.body, lanes | {stmt.var} if stmt.is_vector else lanes)
    whole = stmt.unroll or stmt.kind is LoopKind.PARALLEL or stmt.place is not None
    fixed = whole or stmt.tensor is not None
    start = 0 if fixed else max((_first_iteration(cond, stmt.var) or 0 for cond in pending), default=0)
    if 0 < start < stmt.extent:
        shifted = substitute_loops(stmt.body, {stmt.var: Var(stmt.var) + start})
        return _loop(replace(stmt, extent=stmt.extent - start, body=shifted), lanes)
    inside = [g for g in pending if stmt.var in free_vars(g)]
    outside = tuple(g for g in pending if stmt.var not in free_vars(g))
    clips: list[Expr] = []
    kept: list[Expr] = []
    for cond in inside:
        first = None if fixed else _first_iteration(cond, stmt.var)
        if first is not None and first <= 0:
            continue  # All iterations meet it.
        clip = None if whole else _clipped_extent(cond, stmt.var)
        if clip is None or not lanes.isdisjoint(free_vars(clip)):
            kept.append(cond)
        else:
            clips.append(clip)
    known = [most for clip in clips if (most := as_int(clip)) is not None and most > 0]
    open_ = tuple(clip for clip in clips if as_int(clip) not in known)
    extent = min([stmt.extent, *known])
    return replace(stmt, extent=extent, body=_guard_body(tuple(kept), body), clips=open_), outside


def _group_by_conditions(children: list[tuple[NestStmt, Conds]]) -> tuple[NestStmt, Conds]:
    shared = _shared_conditions(children)
    out: list[NestStmt] = []
    group: list[NestStmt] = []
    under: Conds = ()
    for stmt, conds in children:
        own = tuple(g for g in conds if g not in shared)
        if group and set(own) != set(under):
            out.append(_guard_body(under, join_statements(group)))
            group = []
        group.append(stmt)
        under = own
    if group:
        out.append(_guard_body(under, join_statements(group)))
    return join_statements(out), shared


def _guard_phases(children: list[tuple[NestStmt, Conds]]) -> tuple[NestStmt, Conds]:
    """Guard each phase of a region by itself, under what `_group_by_conditions` would put around several."""
    shared = _shared_conditions(children)
    own = [tuple(g for g in conds if g not in shared) for _, conds in children]
    return NestRegion(tuple(_guard_body(conds, stmt) for (stmt, _), conds in zip(children, own, strict=True))), shared


def _shared_conditions(children: list[tuple[NestStmt, Conds]]) -> Conds:
    return tuple(g for g in children[0][1] if all(g in conds for _, conds in children)) if children else ()


def _clipped_extent(cond: Expr, var: str) -> Expr | None:
    """The extent that `cond` leaves to `var`, when it is an upper limit on it."""
    found = _split_limit(cond, var)
    if found is None or found[0] <= 0:
        return None
    step, rest = found
    room = Binary(BinOp.SUB, ZERO, rest)
    return simplify(room if step == 1 else Binary(BinOp.CEILDIV, room, const(step)))


def _first_iteration(cond: Expr, var: str) -> int | None:
    """The first value that `cond` leaves to `var`, when it is a lower limit on it that is known."""
    found = _split_limit(cond, var)
    if found is None or found[0] >= 0:
        return None
    step, rest = found
    first = as_int(rest)
    return None if first is None else first // -step + 1


def _split_limit(cond: Expr, var: str) -> tuple[int, Expr] | None:
    """`step, rest` such that `cond` is `step * var + rest < 0`; None where it is nothing of the kind.

    A quotient becomes a multiple: `var // 3 >= 1` is `var >= 3`.
    """
    if not (isinstance(cond, Binary) and cond.op in _UPPER_LIMITS):
        return None
    flip, slack = _UPPER_LIMITS[cond.op]
    a, b = (cond.b, cond.a) if flip else (cond.a, cond.b)
    try:
        rest, terms = linear(Binary(BinOp.SUB, Binary(BinOp.SUB, a, b), const(slack)), frozenset({var}))
    except NotAffine:
        return None
    if len(terms) != 1:
        return None
    ((atom, coefficient),) = terms.items()
    step = as_int(coefficient)
    if step is None or free_vars(rest) & {var}:
        return None
    if isinstance(atom, Var):
        return step, rest
    divisor = as_int(atom.b) if isinstance(atom, Binary) and atom.op is BinOp.FLOORDIV else None
    if divisor is None or step not in (1, -1):
        return None
    assert isinstance(atom, Binary)
    if step == 1:  # a // d < -rest
        return _split_limit(Binary(BinOp.LT, atom.a, Binary(BinOp.MUL, simplify(ZERO - rest), const(divisor))), var)
    return _split_limit(Binary(BinOp.GE, atom.a, Binary(BinOp.MUL, simplify(rest + 1), const(divisor))), var)


# Comparison -> whether the sides are to be swapped, and what is added to the right to make it strict.
_UPPER_LIMITS = {BinOp.LT: (False, 0), BinOp.LE: (False, 1), BinOp.GT: (True, 0), BinOp.GE: (True, 1)}
