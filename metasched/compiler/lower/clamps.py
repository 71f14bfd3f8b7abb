"""Loops in parts, so that most of a row is read where it lies although its border is read by clamped indices.

`X[min(max(j - 3, 0), W - 1)]` over lanes is a gather. Between the borders neither the minimum nor the maximum makes a
difference: a loop over such a row becomes up to three, and emission finds in the ranges of the middle one that its
lanes are neighbours. The parts meet at whole vectors, so that quotients of lanes stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, product

from metasched.compiler.lower.nest import (
    Assign,
    NameSupply,
    NestLoop,
    NestStmt,
    Path,
    assigns,
    join_statements,
    map_children,
)
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.ir.integers.affine import const, free_vars
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import Binary, BinOp, Expr, LoopKind, Var
from metasched.schedule.rewrite.borders import change_along

_EXTREMA = (BinOp.MIN, BinOp.MAX)


def cut_at_clamps(stmt: NestStmt, names: NameSupply, path: Path = ()) -> NestStmt:
    """`stmt` with loops over one statement cut where the minima and maxima in what its lanes read are decided."""
    if not isinstance(stmt, NestLoop):
        return map_children(stmt, lambda child: cut_at_clamps(child, names, path))
    parts: list[NestStmt] = [
        replace(part, body=cut_at_clamps(part.body, names, (*path, part))) for part in _split_at_cuts(stmt, names, path)
    ]
    return join_statements(parts)


def _split_at_cuts(loop: NestLoop, names: NameSupply, path: Path) -> list[NestLoop]:
    cuts = _cut_iterations(loop, path)
    if not cuts:
        return [loop]
    parts = []
    for low, high in pairwise([0, *cuts, loop.extent]):
        # A name of its own, as bounds of what a name is are those of its longest loop.
        var = names.fresh(loop.var) if low else loop.var
        moved = {loop.var: Binary(BinOp.ADD, Var(var), const(low))} if low else {}
        parts.append(replace(loop, var=var, extent=high - low, body=substitute_loops(loop.body, moved)))
    return parts


def _cut_iterations(loop: NestLoop, path: Path) -> list[int]:
    """The iterations at which parts after the first begin."""
    found = list(assigns(loop.body))
    if len(found) != 1 or loop.kind is LoopKind.PARALLEL or loop.unroll or loop.tensor is not None:
        return []
    ((inner, statement),) = found
    around = (*path, loop, *inner)
    vector = next((x.var for x in (loop, *inner) if x.is_vector), None)
    if vector is None or loop.var in statement.reduction or not _is_straight(loop):
        return []
    if any(outer.var in statement.reduction for outer in path):
        return []  # Sums under way, in registers, are those of one nest.
    others = {x.var: const(x.extent) for x in around if x is not loop}
    cuts = set()
    for extremum in _lane_extrema(statement, vector):
        if loop.var not in free_vars(extremum):
            continue
        for a, b in product(_resolve_extrema(extremum.a), _resolve_extrema(extremum.b)):
            cuts |= set(_crossings(a, b, loop, others))
    return sorted(cut for cut in cuts if 0 < cut < loop.extent)


def _is_straight(loop: NestLoop) -> bool:
    """Whether nothing but loops is between a loop and its one statement."""
    body = loop.body
    while isinstance(body, NestLoop):
        body = body.body
    return isinstance(body, Assign)


def _lane_extrema(statement: Assign, vector: str) -> Iterator[Binary]:
    """The minima and maxima in indices of what is read that depend on the lane."""
    for load in statement.reads:
        for index in load.indices:
            for node in index.walk():
                if (
                    isinstance(node, Binary)
                    and node.op in _EXTREMA
                    and vector in free_vars(node)
                    and not depends_on_data(node)
                ):
                    yield node


def _resolve_extrema(e: Expr) -> list[Expr]:
    """An expression for every way in which the minima and maxima in it may be decided."""
    found = next((node for node in e.walk() if isinstance(node, Binary) and node.op in _EXTREMA), None)
    if found is None:
        return [e]
    return [way for side in (found.a, found.b) for way in _resolve_extrema(_replace_node(e, found, side))]


def _replace_node(e: Expr, old: Expr, new: Expr) -> Expr:
    return new if e is old else e.map(lambda child: _replace_node(child, old, new))


def _crossings(a: Expr, b: Expr, loop: NestLoop, others: Mapping[str, Expr]) -> Iterator[int]:
    """The iterations, at whole vectors, between which one is the larger for all values of other loops."""
    unit = loop.lanes
    for op in (BinOp.LE, BinOp.GE):
        change = change_along(Binary(op, a, b), loop.var, others)
        if change is not None:
            yield -(-change.at // unit) * unit if change.begins else change.at // unit * unit
