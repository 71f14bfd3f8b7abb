"""The nest that writes a reduction's `init`, before the outermost loop that its reduction iterations use.

The loops below that one which the written element or its guards depend on are cloned with their kind: a
vectorised loop stays vectorised, an unrolled one unrolled. Guards over loops that only the reduction uses are left
out: an element all of whose terms are guarded away is an empty reduction. Of a scattered loop all places are written,
which its order is not made for: the loop over neighbouring elements becomes the innermost, in vectors.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.compiler.lower.nest import (
    Assign,
    Many,
    NameSupply,
    NestLoop,
    NestRegion,
    NestStmt,
    Path,
    assigns,
    clone_over_elements,
    join_statements,
    map_children,
    wrap_loops,
)
from metasched.compiler.lower.strip_mining import substitute_loops
from metasched.ir.integers.affine import ONE, NotAffine, free_vars, free_vars_of, linear
from metasched.ir.nodes import LoopKind, Var
from metasched.target import Target


def place_inits(stmt: NestStmt, names: NameSupply, target: Target) -> NestStmt:
    """`stmt` with the start of every reduction as statements of its own, marked `starts`."""
    if isinstance(stmt, Many):
        return join_statements([place_inits(child, names, target) for child in stmt.stmts])
    if isinstance(stmt, NestRegion):
        return map_children(stmt, lambda phase: place_inits(phase, names, target))
    if not isinstance(stmt, NestLoop):
        return stmt
    # A reduction that starts here has this loop as its outermost; one that starts further in is placed further in.
    here = [(path, a) for path, a in assigns(stmt) if a.init is not None and stmt.var in a.reduction]
    starts = [_start_statement(path, a, names, target) for path, a in here]
    body = place_inits(_clear_inits(stmt.body, {a.block for _, a in here}), names, target)
    return join_statements([*starts, replace(stmt, body=body)])


def _start_statement(path: Path, assign: Assign, names: NameSupply, target: Target) -> NestStmt:
    own = assign.reduction - assign.spatial
    guards = tuple(g for g in assign.guards if own.isdisjoint(free_vars(g)))
    needed = assign.spatial | free_vars_of(guards)
    assert assign.init is not None
    # What it writes is read again at once.
    start = replace(assign, reducer=None, init=None, starts=assign.block, streams=False)
    if assign.positions is not None:
        assert assign.positions.init is not None
        start = replace(start, positions=replace(assign.positions, value=assign.positions.init))
    body: NestStmt = replace(start, value=assign.init, guards=guards)
    loops = [loop for loop in path if loop.var in needed]
    clones = [clone_over_elements(loop, names.fresh(f"{loop.var}_init")) for loop in loops]
    old = [loop.var for loop in loops]
    body = substitute_loops(body, {var: Var(loop.var) for var, loop in zip(old, clones, strict=True)})
    assert isinstance(body, Assign)
    body = replace(body, begins=assign.init)
    if any(loop.kind is LoopKind.SCATTERED for loop in loops):
        clones = _in_vectors(clones, body, target)
    return wrap_loops(clones, body)


def _in_vectors(loops: list[NestLoop], start: Assign, target: Target) -> list[NestLoop]:
    """The loops around what writes initial values, with that over neighbouring elements innermost and in vectors, if
    none is and it may be.
    """
    found = next((loop for loop in loops if _moves_by_one(start, loop.var)), None)
    lanes = target.lanes(start.value.dtype)
    if (
        found is None
        or found.kind is not LoopKind.SERIAL
        or found.extent < lanes
        or start.positions is not None
        or any(loop.is_vector for loop in loops)
    ):
        return loops
    return [*(loop for loop in loops if loop is not found), replace(found, kind=LoopKind.VECTORIZED, lanes=lanes)]


def _moves_by_one(start: Assign, loop: str) -> bool:
    """Whether a loop goes over elements that are neighbours, along the last dimension alone."""
    if not start.indices or loop in free_vars_of(start.indices[:-1]):
        return False
    try:
        return linear(start.indices[-1], frozenset({loop}))[1] == {Var(loop): ONE}
    except NotAffine:
        return False


def _clear_inits(stmt: NestStmt, blocks: set[str]) -> NestStmt:
    if isinstance(stmt, Assign):
        return replace(stmt, init=None) if stmt.block in blocks else stmt
    return map_children(stmt, lambda child: _clear_inits(child, blocks))
