"""The low-level program as text that a person can follow."""

from __future__ import annotations

from metasched.compiler import lir
from metasched.ir.nodes import BinOp, Const, Expr
from metasched.ir.printer import print_expr

_MODE_WORDS = {lir.LoopMode.SERIAL: "for", lir.LoopMode.PARALLEL: "parallel", lir.LoopMode.UNROLLED: "unrolled"}


def print_kernel(kernel: lir.LoopProgram) -> str:
    """Arrays, a line each, then the loops."""
    lines = [f"kernel {kernel.name}({', '.join(kernel.order)}):"]
    lines += [f"    {a.kind.value} {a.name}: {a.dtype}[{a.size}]" for a in kernel.arrays]
    return "\n".join([*lines, *_stmt_lines(kernel.body, 1)]) + "\n"


def _stmt_lines(stmt: lir.LStmt, depth: int) -> list[str]:
    pad = "    " * depth
    match stmt:
        case lir.Body():
            return [line for child in stmt.stmts for line in _stmt_lines(child, depth)]
        case lir.Region():
            phases = [_stmt_lines(phase, depth + 1) for phase in stmt.phases]
            between = [line for phase in phases[1:] for line in (f"{pad}    barrier", *phase)]
            return [f"{pad}region:", *phases[0], *between]
        case lir.Counted() | lir.If() | lir.AtPlace() | lir.VectorLoop() | lir.Loop():
            return [pad + _head_text(stmt), *_stmt_lines(stmt.body, depth + 1)]
        case _:
            return [pad + _leaf_text(stmt)]


def _head_text(stmt: lir.Counted | lir.If | lir.AtPlace | lir.VectorLoop | lir.Loop) -> str:
    """The line above a body."""
    match stmt:
        case lir.Counted():
            return f"counter {stmt.number}:"
        case lir.If():
            return f"if {print_expr(stmt.cond)}:"
        case lir.AtPlace():
            return f"at {stmt.var} = {print_expr(stmt.place)} of {stmt.extent}:"
        case lir.VectorLoop():
            strips = ", unrolled" if stmt.unroll_strips and _strip_count(stmt) != 1 else ""
            return f"vector({stmt.lanes}{strips}) {stmt.var} in range({print_expr(stmt.extent)}):"
        case lir.Loop():
            counter = "" if stmt.counter is None else f"  @counter({stmt.counter})"
            return f"{_MODE_WORDS[stmt.mode]} {stmt.var} in range({print_expr(stmt.extent)}):{counter}"


def _leaf_text(stmt: lir.LStmt) -> str:
    """A statement without a body."""
    match stmt:
        case lir.Write():
            marks = ("  @fastmath" if stmt.fast else "") + ("  @non_temporal" if stmt.streams else "")
            return f"{stmt.array}[{print_expr(stmt.index)}] = {print_expr(stmt.value)}{marks}"
        case lir.ArgReduction():
            return _arg_reduction_text(stmt)
        case lir.Prefetch():
            into = "" if stmt.cache == 1 else f" into cache {stmt.cache}"
            return f"prefetch {stmt.array}[{print_expr(stmt.index)}]{into}"
        case lir.Reread():
            return "reread"
        case lir.IntrinsicCall():
            return f"{stmt.name}({', '.join(_operand_text(x) for x in (stmt.output, *stmt.inputs))})"
        case lir.TileMove():
            return f"{_operand_text(stmt.target)} = {'zeros' if stmt.source is None else _operand_text(stmt.source)}"
        case _:
            raise TypeError(f"not a statement: {stmt!r}")


def _arg_reduction_text(stmt: lir.ArgReduction) -> str:
    targets = f"{print_expr(stmt.values)}, {print_expr(stmt.positions)}"
    marks = ("  @rising" if stmt.rising else "") + ("  @fastmath" if stmt.fast else "")
    word = "argmax" if stmt.better is BinOp.GT else "argmin"
    return f"{targets} {word}= {print_expr(stmt.value)}, {print_expr(stmt.position)}{marks}"


def _operand_text(operand: lir.Operand) -> str:
    strides = ", ".join(map(str, operand.strides))
    return f"{operand.first.buffer}[{print_expr(operand.first.indices[0])}; strides {strides}]"


def _strip_count(loop: lir.VectorLoop) -> int | None:
    extent: Expr = loop.extent
    return -(-int(extent.value) // loop.lanes) if isinstance(extent, Const) else None
