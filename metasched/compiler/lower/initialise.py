"""The nest that writes a reduction's `init`, before the outermost loop that its reduction iterations use.

The loops below that one which the written element or its guards depend on are cloned with their kind: a
vectorised loop stays vectorised, an unrolled one unrolled. Guards over loops that only the reduction uses are left
out: an element all of whose terms are guarded away is an empty reduction.
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
from metasched.ir.affine import free_vars, free_vars_of
from metasched.ir.nodes import Var


def place_inits(stmt: NestStmt, names: NameSupply) -> NestStmt:
    """`stmt` with the start of every reduction as statements of its own, marked `starts`."""
    if isinstance(stmt, Many):
        return join_statements([place_inits(child, names) for child in stmt.stmts])
    if isinstance(stmt, NestRegion):
        return map_children(stmt, lambda phase: place_inits(phase, names))
    if not isinstance(stmt, NestLoop):
        return stmt
    # A reduction that starts here has this loop as its outermost; one that starts further in is placed further in.
    here = [(path, a) for path, a in assigns(stmt) if a.init is not None and stmt.var in a.reduction]
    starts = [_start_statement(path, a, names) for path, a in here]
    body = place_inits(_clear_inits(stmt.body, {a.block for _, a in here}), names)
    return join_statements([*starts, replace(stmt, body=body)])


def _start_statement(path: Path, assign: Assign, names: NameSupply) -> NestStmt:
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
    return wrap_loops(clones, body)


def _clear_inits(stmt: NestStmt, blocks: set[str]) -> NestStmt:
    if isinstance(stmt, Assign):
        return replace(stmt, init=None) if stmt.block in blocks else stmt
    return map_children(stmt, lambda child: _clear_inits(child, blocks))
