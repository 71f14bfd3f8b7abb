"""Counters around the parts of a nest, to know where its time goes: the last thing that is done to one.

Every statement at the root is a part, with all blocks that it computes; so is every loop that runs on threads, and what
a loop has in a sequence, as long as that is not reached too often. Statements in a row of the same blocks are one part:
a reduction, and what starts it and folds its lanes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from metasched.compiler.lower.nest import (
    CountedNest,
    Many,
    NestLoop,
    NestRegion,
    NestStmt,
    When,
    assigns,
    join_statements,
    replace_body,
)
from metasched.ir.nodes import LoopKind
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class CountedPart:
    """A part of a program that has a counter of its own; its number is its place among all of them.

    Attributes:
        blocks: the blocks that it computes, in the order in which they begin.
        loops: the loop that it is, by its variable and its number of iterations; empty for several.
        parent: the number of the part that it is in; None at the root.
        on_threads: whether its loop runs on threads: its counter is the sum over them, as are those of parts inside.
    """

    blocks: tuple[str, ...]
    loops: tuple[tuple[str, int], ...]
    parent: int | None
    on_threads: bool


class NestCounters:
    """Puts counters into a nest. `threads` is how many a parallel loop runs on, `most` how often a part inside of loops
    may begin on one thread.
    """

    def __init__(self, threads: int, most: int) -> None:
        self.parts: list[CountedPart] = []
        self._threads = threads
        self._most = most

    def count_nest(self, stmt: NestStmt) -> NestStmt:
        """Put counters into a whole nest."""
        return self._count_sequence(stmt.stmts if isinstance(stmt, Many) else (stmt,), None, 1.0)

    def _count_sequence(self, stmts: tuple[NestStmt, ...], parent: int | None, runs: float) -> NestStmt:
        found: list[NestStmt] = []
        for blocks, together in _group_by_blocks(stmts):
            number = self._add(blocks, together, parent, False)
            found.append(
                CountedNest(number, join_statements([self._count_inside(stmt, number, runs) for stmt in together]))
            )
        return join_statements(found)

    def _add(self, blocks: tuple[str, ...], stmts: tuple[NestStmt, ...], parent: int | None, on_threads: bool) -> int:
        only = stmts[0]
        loops = _nested_loops(only) if len(stmts) == 1 else ()
        self.parts.append(CountedPart(blocks, loops, parent, on_threads))
        return len(self.parts) - 1

    def _count_inside(self, stmt: NestStmt, parent: int, runs: float) -> NestStmt:
        """A statement with counters in the first sequence that it comes to, and around loops on threads."""
        if isinstance(stmt, NestRegion):
            return NestRegion(tuple(self._count_inside(phase, parent, runs) for phase in stmt.phases))
        if isinstance(stmt, When):
            return When(stmt.conds, self._count_inside(stmt.body, parent, runs))
        if isinstance(stmt, Many):
            rows = _group_by_blocks(stmt.stmts)
            if len(rows) == 1:
                return join_statements([self._count_inside(child, parent, runs) for child in stmt.stmts])
            return self._count_sequence(stmt.stmts, parent, runs) if runs * len(rows) <= self._most else stmt
        if not isinstance(stmt, NestLoop) or stmt.is_vector or stmt.unroll or stmt.tensor is not None:
            return stmt
        if stmt.kind is LoopKind.PARALLEL and self._threads > 1:
            number = self._add(_block_names(stmt), (stmt,), parent, True)
            each = runs * -(-stmt.extent // self._threads)
            return replace(stmt, counter=number, body=self._count_inside(stmt.body, number, each))
        return replace_body(stmt, self._count_inside(stmt.body, parent, runs * stmt.extent))


def _group_by_blocks(stmts: tuple[NestStmt, ...]) -> list[tuple[tuple[str, ...], tuple[NestStmt, ...]]]:
    """Group neighbouring statements by the names of their blocks."""
    return [(blocks, tuple(group)) for blocks, group in groupby(stmts, _block_names)]


def _block_names(stmt: NestStmt) -> tuple[str, ...]:
    return tuple(dict.fromkeys(assign.block for _, assign in assigns(stmt)))


def _nested_loops(stmt: NestStmt) -> tuple[tuple[str, int], ...]:
    """The loops that a statement is, one right inside the other, outermost first."""
    found: list[tuple[str, int]] = []
    while isinstance(stmt, NestLoop | When):
        if isinstance(stmt, NestLoop):
            found.append((stmt.var, stmt.extent))
        stmt = stmt.body
    return tuple(found)
