"""A part of a program as a program of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from metasched.ir import query
from metasched.ir.nodes import Func, Load, Seq, Stmt, seq
from metasched.ir.program import Program


def excerpt(program: Program, blocks: Collection[str]) -> Program:
    """The program that computes no more than some of an unscheduled program's blocks; all names stay as they are.

    What others compute is an input of it, and what others read an output. Only its `func` is that of a part: its name
    and its text are still those of the whole.
    """
    return replace(program, func=_excerpt(program.func, frozenset(blocks)))


def _excerpt(func: Func, blocks: frozenset[str]) -> Func:
    stmts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    kept = [stmt for stmt in stmts if _block_names(stmt) <= blocks]
    rest = [stmt for stmt in stmts if not _block_names(stmt) <= blocks]
    written, read = _written_buffers(kept), _read_buffers(kept)
    results = written & (_read_buffers(rest) | {b.name for b in func.outputs})
    inputs = tuple(b for b in func.buffers() if b.name in read - written)
    return replace(
        func,
        inputs=inputs,
        order=(*(b.name for b in inputs), *(s.name for s in func.scalars)),
        outputs=tuple(b for b in func.buffers() if b.name in results),
        temps=tuple(b for b in func.temps if b.name in written - results),
        body=seq(kept),
    )


def _block_names(stmt: Stmt) -> frozenset[str]:
    return frozenset(block.name for block in query.blocks_under(stmt))


def _written_buffers(stmts: Collection[Stmt]) -> frozenset[str]:
    return frozenset(name for s in stmts for block in query.blocks_under(s) for name in query.written_buffers(block))


def _read_buffers(stmts: Collection[Stmt]) -> frozenset[str]:
    return frozenset(node.buffer for stmt in stmts for node in stmt.walk() if isinstance(node, Load))
