"""How much a program computes, and which way of running it takes the least time for so much."""

from __future__ import annotations

from metasched.ir.integers.affine import as_int
from metasched.ir.node_base import Node
from metasched.ir.nodes import Block, For, Seq, Stmt

# Expression nodes evaluated in a run, for each nest, beyond which compiling (some milliseconds a nest) is faster than
# interpreting.
INTERPRETED_WORK = 200_000
# Beyond so many, optimising what is compiled, which takes 10 to 100 ms a nest, gains more time than it takes.
UNOPTIMISED_WORK = 200_000_000


def count_nodes(stmt: Stmt) -> int:
    """Expression nodes evaluated, about."""
    if isinstance(stmt, For):
        return (as_int(stmt.extent) or 1) * count_nodes(stmt.body)
    if isinstance(stmt, Seq):
        return sum(count_nodes(child) for child in stmt.stmts)
    assert isinstance(stmt, Block)
    parts: tuple[Node, ...] = (*stmt.bindings, *stmt.guards, stmt.store)
    return sum(1 for part in parts for _ in part.walk())
