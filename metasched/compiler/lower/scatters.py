"""Of a scattered loop, only the iteration that data says has a term is run: which one that is becomes its place.

The largest number of the terms for a place, such as the last update that is for an element, is that of the newest term
where numbers come in rising order: it is written without a look at what is there. Terms for one place, one behind the
other, would wait for one another.

This comes after initial values and accumulators are placed, which are about all iterations.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.compiler.lower.nest import Assign, NestLoop, NestStmt, Path, When, assigns, map_assigns, map_children
from metasched.dtypes import INDEX, holds_range
from metasched.errors import BuildError
from metasched.ir.integers.affine import const, free_vars, free_vars_of
from metasched.ir.nodes import Cast, Expr, LoopKind, Reducer, Var
from metasched.ir.places import TermPlace, place_of


def place_terms(stmt: NestStmt, path: Path = ()) -> NestStmt:
    """`stmt` with the places of scattered loops found.

    Raises BuildError where a later step of the schedule has changed what a term or its place is.
    """
    if not isinstance(stmt, NestLoop):
        return map_children(stmt, lambda child: place_terms(child, path))
    if stmt.kind is not LoopKind.SCATTERED:
        return map_children(stmt, lambda child: place_terms(child, (*path, stmt)))
    found = [a for _, a in assigns(stmt)]
    if all(a.reducer is None or _has_no_terms(a) for a in found):
        return replace(stmt, kind=LoopKind.SERIAL)  # Each element has one term, and is written whatever it is, or none.
    place = _find_place(stmt, found, path)
    if place is None:
        raise BuildError(
            "scattered loop without a place",
            f"`{stmt.var}` has no condition any more that says at which iteration a term is",
        )
    overwrites = _is_newest(place.value, found[0], (*path, stmt))
    body = map_assigns(
        stmt.body,
        lambda a: replace(
            a,
            value=place.value,
            guards=(*a.guards, *place.conds),
            reducer=None if overwrites else a.reducer,
        ),
    )
    return replace(stmt, place=place.index, body=place_terms(body, (*path, stmt)))


def _is_newest(value: Expr, assign: Assign, path: Path) -> bool:
    """Whether terms are numbers that rise from one term of an element to the next, of which the largest is wanted.

    They are the variable of the only loop of the reduction, which runs in order, and no less than what elements start
    from: that is the lowest number of the type.
    """
    while isinstance(value, Cast) and value.dtype.is_integer and value.value.dtype is INDEX:
        value = value.value
    over = [loop for loop in path if loop.var in assign.reduction - assign.spatial and loop.extent > 1]
    if assign.reducer is not Reducer.MAX or not isinstance(value, Var) or [loop.var for loop in over] != [value.name]:
        return False
    return over[0].kind is LoopKind.SERIAL and holds_range(assign.value.dtype, 0, over[0].extent - 1)


def _has_no_terms(assign: Assign) -> bool:
    """Whether no iteration has a term, as a condition that never holds leaves it."""
    return assign.reducer is not None and assign.value == assign.reducer.identity(assign.value.dtype)


def _find_place(loop: NestLoop, found: list[Assign], path: Path) -> TermPlace | None:
    if len(found) != 1:
        return None
    inside = next(inner for inner, _ in assigns(loop.body))
    ranges = {x.var: const(x.extent) for x in (*path, loop, *inside)}
    place = place_of(found[0].value, found[0].reducer, loop.var, ranges)
    if place is None:
        return None
    used = free_vars_of((place.index, *place.conds))
    # What the place reads may only be there where conditions hold that are left inside.
    kept = [g for g in found[0].guards if loop.var in free_vars(g)] + _inner_conditions(loop.body)
    changed = used & {x.var for x in inside}
    return None if changed or any(used & free_vars(cond) for cond in kept) else place


def _inner_conditions(stmt: NestStmt) -> list[Expr]:
    if isinstance(stmt, When):
        return [*stmt.conds, *_inner_conditions(stmt.body)]
    return _inner_conditions(stmt.body) if isinstance(stmt, NestLoop) else []
