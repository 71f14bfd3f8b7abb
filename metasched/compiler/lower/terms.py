"""Terms of a reduction that are not there become guards of its update: what they would need is not computed.

Its element is started, and stored, whether it has a term or not; so this comes after accumulators are placed.
Conditions that differ between the lanes of a vector stay choices between two values.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.compiler.absent_terms import split_terms
from metasched.compiler.lower.nest import Assign, NestLoop, NestStmt, map_children
from metasched.ir.integers.affine import free_vars


def guard_terms(stmt: NestStmt, lanes: frozenset[str] = frozenset()) -> NestStmt:
    """`stmt` with the conditions of terms as guards, inside vectorised loops over `lanes`."""
    if isinstance(stmt, Assign):
        conds, term = split_terms(stmt.value, stmt.reducer, lambda cond: not lanes.isdisjoint(free_vars(cond)))
        # An update has its own conditions, among which are those under which it is wanted.
        guards = conds if stmt.reducer is not None and conds else stmt.wanted
        return replace(stmt, value=term, guards=(*stmt.guards, *guards), wanted=()) if guards else stmt
    if isinstance(stmt, NestLoop) and stmt.is_vector:
        lanes |= {stmt.var}
    return map_children(stmt, lambda child: guard_terms(child, lanes))
