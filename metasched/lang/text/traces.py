"""Traces: text to data and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import TypeGuard

from lark import Token, Tree

from metasched.dtypes import INDEX, DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Select, Unary, UnOp, Var
from metasched.ir.source import (
    Apply,
    At,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Keyword,
    ListLit,
    Name,
    NoneLit,
    Operation,
    Prefix,
    SourceExpr,
    TextLit,
    negate,
)
from metasched.ir.source_printer import print_params, print_source
from metasched.lang.decisions import print_decision, read_decision
from metasched.lang.diagnostics import Diagnostics, require_text
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData, Value
from metasched.lang.text.expressions import (
    SyntaxTree,
    ValueReader,
    at_token,
    at_tree,
    optional_child,
    subtree,
    subtrees,
    token,
)
from metasched.lang.text.layout import Start
from metasched.lang.text.programs import read_settings
from metasched.lang.text.syntax import parse
from metasched.lang.text.trace_lines import TraceLines
from metasched.support.messages import a_or_an, did_you_mean

FORMAT = 1

# Places that no line defines: at the top of the program, and into the consumers.
_PLACES = frozenset({"root", "inline"})
_CALLS = {"min": BinOp.MIN, "max": BinOp.MAX, "ceildiv": BinOp.CEILDIV}
_CALL_NAMES = {op: name for name, op in _CALLS.items()}


def parse_trace(text: str, filename: str = "<trace>") -> TraceData:
    """A trace from its text.

    Raises:
        LanguageError: with the first syntax error, or with every other mistake found.
    """
    require_text("trace", text, "of a file, give what `path.read_text()` reads")
    try:
        data = _trace_lines().trace(text, _PLACES)
    except LanguageError:  # it is found again in the whole text, with its place there
        data = None
    return _parse_trace(text, filename, set()) if data is None else data


@cache
def _trace_lines() -> TraceLines:
    return TraceLines(lambda text: _parse_trace(text, "<line>", _AnyHandle()))


class _AnyHandle(set[str]):
    """The handles above a line of which it is not known what is above it."""

    def __contains__(self, name: object) -> bool:
        return True


def _parse_trace(text: str, filename: str, handles: set[str]) -> TraceData:
    tree = parse(text, Start.TRACE, filename)
    diagnostics = Diagnostics(text, filename)
    data = _TraceReader(diagnostics, handles).read(tree)
    diagnostics.check()
    return data


def print_trace(trace: TraceData) -> str:
    """The canonical text of a trace, ending in a newline.

    Raises:
        TypeError: when an argument has no text form.
    """
    lines = [f"trace {trace.format} of {trace.program}{print_params(trace.params)}:"]
    lines += ["    " + print_instruction(instruction) for instruction in trace.instructions]
    return "\n".join(lines) + "\n"


def print_instruction(instruction: Instruction) -> str:
    """One line of a trace, without indentation."""
    version = f"@{instruction.version}" if instruction.version != 1 else ""
    fields = [print_value(arg) for arg in instruction.args]
    fields += [f"{name}={print_value(value)}" for name, value in instruction.kwargs]
    outputs = ", ".join(instruction.outputs)
    if outputs:
        outputs += " ~ " if instruction.random else " = "
    text = f"{outputs}{instruction.op}{version}({', '.join(fields)})"
    if instruction.address is not None:
        text += f" @ {json.dumps(instruction.address)}"
    if instruction.decision is not None:
        text += f" := {print_value(instruction.decision)}"
    return text


def print_value(value: Value | Decision) -> str:
    """An argument or a decision as text."""
    match value:
        case Expr():
            return print_source(_source(value))
        case tuple():
            return "[" + ", ".join(print_value(item) for item in value) + "]"
        case None:
            return "None"
    return print_decision(value)


# --- reading ---------------------------------------------------------------------------------------------


class _TraceReader:
    """Reads the tree of a trace. `handles` are those defined above it."""

    def __init__(self, diagnostics: Diagnostics, handles: set[str]) -> None:
        self._diagnostics = diagnostics
        self._expressions = ValueReader(diagnostics)
        self._handles = handles

    def read(self, tree: SyntaxTree) -> TraceData:
        number, name = token(tree, 0), token(tree, 1)
        settings, *lines = subtrees(tree)
        version = self._expressions.integer(number)
        if version != FORMAT:
            message = f"this is a trace of format {version}, and format {FORMAT} is what can be read here"
            self._diagnostics.error(at_token(number), message)
        params = tuple((param.name, param.default) for param in read_settings(settings, self._expressions))
        instructions = tuple(self._line(line) for line in lines)
        return TraceData(str(name), params, instructions, version)

    def _line(self, tree: SyntaxTree) -> Instruction:
        handles, sign = optional_child(tree, 0), optional_child(tree, 1)
        operation, address, decision = (subtree(tree, n) for n in range(2, 5))
        outputs = tuple(str(t) for t in handles.children) if isinstance(handles, Tree) else ()
        random = isinstance(sign, Token) and sign.type == "TILDE"
        op, version = token(operation, 0), subtree(operation, 1)
        args, kwargs = self._fields(subtrees(subtree(operation, 2)))
        if not random and (address.children or decision.children):
            part = "an address" if address.children else "a decision"
            message = f"{part} belongs to a random variable, and this line draws none"
            self._diagnostics.error(at_tree(operation), message, f"write `~` instead of `=` before `{op}`")
        out = Instruction(
            str(op),
            args,
            kwargs,
            outputs,
            random,
            self._expressions.text(token(address, 0)) if address.children else None,
            self._decision(subtree(decision, 0)) if decision.children else None,
            self._expressions.integer(token(version, 0)) if version.children else 1,
        )
        self._handles.update(outputs)
        return out

    def _fields(self, fields: Iterable[SyntaxTree]) -> tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]:
        args: list[Value] = []
        kwargs: dict[str, Value] = {}
        for field in fields:
            match self._expressions.read(field):
                case Keyword(name=name, value=value) if name in kwargs:
                    self._diagnostics.error(at_tree(field), f"`{name}` is given twice", "remove one")
                case Keyword(name=name, value=value):
                    kwargs[name] = self._value(value)
                case value:
                    if kwargs:
                        message = "an argument without a name comes after one with a name"
                        self._diagnostics.error(at_tree(field), message, "put it first")
                    args.append(self._value(value))
        return tuple(args), tuple(kwargs.items())

    def _value(self, e: SourceExpr) -> Value:
        match e:
            case TextLit(value=value) | IntLit(value=value) | FloatLit(value=value) | BoolLit(value=value):
                return value
            case NoneLit():
                return None
            case ListLit(items=items):
                return tuple(self._value(item) for item in items)
            case Name(name=name):
                self._check_handle(name, e.at)
                return Ref(name)
        return self._arithmetic(e)

    def _decision(self, tree: SyntaxTree) -> Decision:
        return read_decision(self._expressions.read(tree), self._diagnostics)

    def _check_handle(self, name: str, at: At) -> None:
        if name == "_":
            self._diagnostics.error(at, "`_` stands only in decisions", "write `None` where nothing is meant")
        elif name not in self._handles and name not in _PLACES:
            hint = did_you_mean(name, self._handles) or "texts are written in quotes"
            self._diagnostics.error(at, f"`{name}` is not defined by a line above", hint)

    def _arithmetic(self, e: SourceExpr) -> Expr:
        match e:
            case IntLit(value=number):
                return Const(number, INDEX)
            case FloatLit(value=number):
                return Const(number, DType.F32)
            case BoolLit(value=truth):
                return Const(truth, DType.BOOL)
            case Name(name=name):
                self._check_handle(name, e.at)
                return Var(name)
            case Operation(op=op, a=a, b=b) if not (op.is_of_bits or op.is_shift):
                return Binary(op, self._arithmetic(a), self._arithmetic(b))
            case Prefix(op=UnOp.NEG | UnOp.NOT as op, a=a):
                return Unary(op, self._arithmetic(a))
            case IfElse(then=then, cond=cond, otherwise=otherwise):
                return Select(self._arithmetic(cond), self._arithmetic(then), self._arithmetic(otherwise))
            case Apply(func=func, args=(a, b)) if func in _CALLS:
                return Binary(_CALLS[func], self._arithmetic(a), self._arithmetic(b))
        hint = "integer variables combine with + - * // %, min(a, b), max(a, b) and ceildiv(a, b)"
        self._diagnostics.error(e.at, f"`{print_source(e)}` has no meaning in a trace", hint)
        return Const(0, INDEX)


# --- printing arithmetic ---------------------------------------------------------------------------------


def _source(e: Expr) -> SourceExpr:
    """IR arithmetic as a source expression: one printer serves both."""
    match e:
        case Const(value=value):
            return _number(value)
        case Var(name=name):
            return Name(name)
        case Binary(op=op, a=a, b=b) if op in _CALL_NAMES:
            return Apply(_CALL_NAMES[op], (_source(a), _source(b)))
        case Binary(op=op, a=a, b=b):
            return Operation(op, _source(a), _source(b))
        case Unary(op=UnOp.NEG, a=a):
            return negate(_source(a))
        case Unary(op=op, a=a):
            return Prefix(op, _source(a))
        case Select(cond=cond, then=then, otherwise=otherwise):
            return IfElse(_source(then), _source(cond), _source(otherwise))
    raise TypeError(f"a trace cannot hold {a_or_an(type(e).__name__)}; its arithmetic is on integer variables")


def _number(value: bool | float) -> SourceExpr:
    if _is_bool(value):
        return BoolLit(value)
    return IntLit(value) if isinstance(value, int) else FloatLit(value)


def _is_bool(value: object) -> TypeGuard[bool]:
    return isinstance(value, bool)
