"""The low-level program as text that a person can follow."""

from __future__ import annotations

from metasched.compiler import lir
from metasched.ir.nodes import BinOp, Const, Expr
from metasched.ir.printer import print_expr


def print_kernel(kernel: lir.LoopProgram) -> str:
    """Arrays, a line each, then the loops."""
    lines = [f"kernel {kernel.name}({', '.join(kernel.order)}):"]
    lines += [f"    {a.kind.value} {a.name}: {a.dtype}[{a.size}]" for a in kernel.arrays]
    return "\n".join([*lines, *_stmt(kernel.body, 1)]) + "\n"


def _stmt(stmt: lir.LStmt, depth: int) -> list[str]:
    pad = "    " * depth
    if isinstance(stmt, lir.Body):
        return [line for child in stmt.stmts for line in _stmt(child, depth)]
    if isinstance(stmt, lir.Counted):
        return [f"{pad}counter {stmt.number}:", *_stmt(stmt.body, depth + 1)]
    if isinstance(stmt, lir.Region):
        phases = [_stmt(phase, depth + 1) for phase in stmt.phases]
        between = [line for phase in phases[1:] for line in (f"{pad}    barrier", *phase)]
        return [f"{pad}region:", *phases[0], *between]
    if isinstance(stmt, lir.Write):
        marks = ("  @fastmath" if stmt.fast else "") + ("  @non_temporal" if stmt.streams else "")
        return [f"{pad}{stmt.array}[{print_expr(stmt.index)}] = {print_expr(stmt.value)}{marks}"]
    if isinstance(stmt, lir.ArgReduction):
        return [pad + _best(stmt)]
    if isinstance(stmt, lir.Prefetch):
        into = "" if stmt.cache == 1 else f" into cache {stmt.cache}"
        return [f"{pad}prefetch {stmt.array}[{print_expr(stmt.index)}]{into}"]
    if isinstance(stmt, lir.Reread):
        return [f"{pad}reread"]
    if isinstance(stmt, lir.IntrinsicCall):
        return [f"{pad}{stmt.name}({', '.join(_operand(x) for x in (stmt.output, *stmt.inputs))})"]
    if isinstance(stmt, lir.TileMove):
        source = "zeros" if stmt.source is None else _operand(stmt.source)
        return [f"{pad}{_operand(stmt.target)} = {source}"]
    if isinstance(stmt, lir.If | lir.AtPlace):
        return [f"{pad}{_condition(stmt)}:", *_stmt(stmt.body, depth + 1)]
    if isinstance(stmt, lir.VectorLoop):
        strips = ", unrolled" if stmt.unroll_strips and _strips(stmt) != 1 else ""
        head = f"vector({stmt.lanes}{strips}) {stmt.var} in range({print_expr(stmt.extent)}):"
        return [pad + head, *_stmt(stmt.body, depth + 1)]
    assert isinstance(stmt, lir.Loop)
    word = {lir.LoopMode.SERIAL: "for", lir.LoopMode.PARALLEL: "parallel", lir.LoopMode.UNROLLED: "unrolled"}[stmt.mode]
    counter = "" if stmt.counter is None else f"  @counter({stmt.counter})"
    return [f"{pad}{word} {stmt.var} in range({print_expr(stmt.extent)}):{counter}", *_stmt(stmt.body, depth + 1)]


def _condition(stmt: lir.If | lir.AtPlace) -> str:
    if isinstance(stmt, lir.If):
        return f"if {print_expr(stmt.cond)}"
    return f"at {stmt.var} = {print_expr(stmt.place)} of {stmt.extent}"


def _best(stmt: lir.ArgReduction) -> str:
    targets = f"{print_expr(stmt.values)}, {print_expr(stmt.positions)}"
    marks = ("  @rising" if stmt.rising else "") + ("  @fastmath" if stmt.fast else "")
    word = "argmax" if stmt.better is BinOp.GT else "argmin"
    return f"{targets} {word}= {print_expr(stmt.value)}, {print_expr(stmt.position)}{marks}"


def _operand(operand: lir.Operand) -> str:
    strides = ", ".join(map(str, operand.strides))
    return f"{operand.first.buffer}[{print_expr(operand.first.indices[0])}; strides {strides}]"


def _strips(loop: lir.VectorLoop) -> int | None:
    extent: Expr = loop.extent
    return -(-int(extent.value) // loop.lanes) if isinstance(extent, Const) else None
