"""The canonical text of a program: minimal parentheses, numbers that round-trip, one line a definition."""

from __future__ import annotations

import json
from enum import IntEnum

from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.source import (
    Apply,
    Argument,
    Axis,
    BoolLit,
    BufferDeclaration,
    FloatLit,
    IfElse,
    IntLit,
    Item,
    Keyword,
    ListLit,
    Name,
    NoneLit,
    Operation,
    Prefix,
    ProgramDef,
    Read,
    Reduce,
    Setting,
    SourceExpr,
    Stage,
    Starred,
    TextLit,
)


class _Level(IntEnum):
    """How tightly an expression binds."""

    CONDITIONAL = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARISON = 4
    BIT_OR = 5
    BIT_XOR = 6
    BIT_AND = 7
    SHIFT = 8
    ADDITIVE = 9
    MULTIPLICATIVE = 10
    UNARY = 11
    ATOM = 12


_LEVELS = {
    BinOp.OR: _Level.OR,
    BinOp.AND: _Level.AND,
    BinOp.BIT_OR: _Level.BIT_OR,
    BinOp.BIT_XOR: _Level.BIT_XOR,
    BinOp.BIT_AND: _Level.BIT_AND,
    BinOp.SHIFT_LEFT: _Level.SHIFT,
    BinOp.SHIFT_RIGHT: _Level.SHIFT,
    BinOp.ADD: _Level.ADDITIVE,
    BinOp.SUB: _Level.ADDITIVE,
}


def print_source(expr: SourceExpr) -> str:
    """An expression as text."""
    return _parenthesize(expr, _Level.CONDITIONAL)


def print_params(params: tuple[tuple[str, Setting], ...]) -> str:
    """`[N=512, T=f32]`, or nothing."""
    return "[" + ", ".join(f"{name}={value}" for name, value in params) + "]" if params else ""


def print_axis(axis: Axis) -> str:
    return axis.name if axis.extent is None else f"{axis.name} < {_parenthesize(axis.extent, _Level.ADDITIVE)}"


def print_domain(reduce: Reduce) -> str:
    """What a reduction is over: `r, s < 3 if s >= r`."""
    axes = _axes(reduce.axes)
    return axes if reduce.cond is None else f"{axes} if {_parenthesize(reduce.cond, _Level.OR)}"


def print_stage(stage: Stage) -> str:
    label = f"{stage.label}: " if stage.label is not None else ""
    targets = ", ".join(f"{name}[{_axes(stage.axes)}]" for name in stage.targets)
    return f"{label}{targets} = {print_source(stage.value)}"


def print_program(program: ProgramDef) -> str:
    """A program as text, ending in a newline."""
    params = print_params(tuple((p.name, p.default) for p in program.params))
    arguments = ", ".join(_argument(a) for a in program.arguments)
    outputs = ", ".join(_declaration(o) for o in program.outputs)
    if len(program.outputs) != 1:
        outputs = f"({outputs})"
    lines = [f"program {program.name}{params}({arguments}) -> {outputs}:"]
    lines += [f"    let {let.name} = {print_source(let.value)}" for let in program.lets]
    lines += [f"    {_declaration(buffer)}" for buffer in program.buffers]
    lines += [f"    {print_stage(stage)}" for stage in program.stages]
    return "\n".join(lines) + "\n"


def _argument(argument: Argument) -> str:
    const = "const " if argument.const else ""
    shape = "" if argument.shape is None else f"[{_list(argument.shape)}]"
    return f"{const}{argument.name}: {argument.dtype}{shape}"


def _declaration(declaration: BufferDeclaration) -> str:
    return f"{declaration.name}: {declaration.dtype}[{_list(declaration.shape)}]"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(print_axis(axis) for axis in axes)


def _list(items: tuple[SourceExpr, ...]) -> str:
    return ", ".join(print_source(item) for item in items)


def _parenthesize(expr: SourceExpr, least: _Level) -> str:
    level, text = _render(expr)
    return f"({text})" if level < least else text


def _render(expr: SourceExpr) -> tuple[_Level, str]:
    match expr:
        case IntLit(value=number) | FloatLit(value=number):
            text = repr(number)
            return _Level.UNARY if text.startswith("-") else _Level.ATOM, text
        case BoolLit(value=truth):
            return _Level.ATOM, str(truth)
        case Name(name=name):
            return _Level.ATOM, name
        case Read(buffer=buffer, indices=indices):
            return _Level.ATOM, f"{buffer}[{_list(indices)}]"
        case Apply(func=func, args=args):
            return _Level.ATOM, f"{func}({_list(args)})"
        case Reduce(reducer=reducer, operand=operand):
            return _Level.ATOM, f"{reducer.value}[{print_domain(expr)}]({print_source(operand)})"
        case Operation():
            return _operation(expr)
        case Prefix(op=UnOp.NOT, a=a):
            return _Level.NOT, f"not {_parenthesize(a, _Level.NOT)}"
        case Prefix(op=op, a=a):
            return _Level.UNARY, f"{op.value}{_parenthesize(a, _Level.UNARY)}"
        case IfElse(then=then, cond=cond, otherwise=otherwise):
            parts = (
                _parenthesize(then, _Level.OR),
                _parenthesize(cond, _Level.OR),
                _parenthesize(otherwise, _Level.CONDITIONAL),
            )
            return _Level.CONDITIONAL, f"{parts[0]} if {parts[1]} else {parts[2]}"
    return _render_module_value(expr)


def _render_module_value(expr: SourceExpr) -> tuple[_Level, str]:
    match expr:
        case TextLit(value=value):
            return _Level.ATOM, json.dumps(value)
        case NoneLit():
            return _Level.ATOM, "None"
        case ListLit(items=items):
            return _Level.ATOM, f"[{_list(items)}]"
        case Item(call=call, indices=indices):
            return _Level.ATOM, f"{print_source(call)}[{_list(indices)}]"
        case Keyword(name=name, value=argument):
            return _Level.CONDITIONAL, f"{name}={print_source(argument)}"
        case Starred(value=argument):
            return _Level.CONDITIONAL, f"*{print_source(argument)}"
    raise TypeError(f"no text for {type(expr).__name__}")


def _operation(expr: Operation) -> tuple[_Level, str]:
    if expr.op.is_comparison:
        # Comparisons do not chain, so a comparison inside one is always in parentheses.
        a, b = _parenthesize(expr.a, _Level.ADDITIVE), _parenthesize(expr.b, _Level.ADDITIVE)
        return _Level.COMPARISON, f"{a} {expr.op.value} {b}"
    level = _LEVELS.get(expr.op, _Level.MULTIPLICATIVE)
    if expr.op.is_of_bits or expr.op.is_shift:
        # Few know which of these binds tighter, so one inside another is in parentheses.
        same = isinstance(expr.a, Operation) and expr.a.op is expr.op
        a, b = _parenthesize(expr.a, level if same else _Level.ADDITIVE), _parenthesize(expr.b, _Level.ADDITIVE)
    else:
        a, b = _parenthesize(expr.a, level), _parenthesize(expr.b, _Level(level + 1))
    return level, f"{a} {expr.op.value} {b}"
