"""A trace from its Python form, as `trace_as_python` writes it. The code is read as data, and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from metasched.dtypes import INDEX
from metasched.errors import Diagnostic, LanguageError
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, UnOp, Var
from metasched.ir.source import Setting
from metasched.lang.decisions import from_python
from metasched.lang.instructions import Decision, Instruction, Ref, TraceData, Value
from metasched.schedule.kinds import ArgumentKind
from metasched.schedule.primitive import Declaration, registry
from metasched.schedule.versions import normal_form

_HEAD = re.compile(r"(\w+)\[(.*)\]")
_OPERATORS: Mapping[type[ast.operator], BinOp] = {
    ast.Add: BinOp.ADD,
    ast.Sub: BinOp.SUB,
    ast.Mult: BinOp.MUL,
    ast.FloorDiv: BinOp.FLOORDIV,
    ast.Mod: BinOp.MOD,
}
_CALLS = {"minimum": BinOp.MIN, "maximum": BinOp.MAX, "ceildiv": BinOp.CEILDIV}
_OF_A_LINE = frozenset({"labels", "address", "decision", "name"})
_MOST_SHOWN = 80  # characters of code in a message
_FORM = "`metasched show --python` writes such files: `def schedule(sch)`, and lines such as `i, j = sch.get_loops(b)`"


def trace_from_python(text: str, filename: str = "<python>") -> TraceData:
    """Read the trace from a module with `def schedule(sch)`, whose lines are calls of the schedule's methods.

    Results are labelled by their variables, unless `labels` is given. Raises LanguageError, with the place, for any
    other line: a loop, a condition, another call.
    """
    try:
        return _read_module(_parse(text))
    except _WrongTextError as error:
        place = error.place
    except _WrongError as error:
        place = Diagnostic(error.node.lineno, error.node.col_offset + 1, error.message, error.hint)
    except RecursionError:  # of Python's parser, or of this: that depends on what limit others have set
        place = Diagnostic(1, 1, "this is nested too deeply")
    raise LanguageError((place,), text, filename)


def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        reason = f"this is no Python: {error.msg}"
        raise _WrongTextError(Diagnostic(error.lineno or 1, error.offset or 1, reason)) from None
    except (ValueError, MemoryError) as error:
        raise _WrongTextError(Diagnostic(1, 1, f"this is no Python that can be read: {error}")) from None


class _WrongTextError(Exception):
    """What is no Python, and where."""

    def __init__(self, place: Diagnostic) -> None:
        self.place = place
        super().__init__(place.message)


class _WrongError(Exception):
    def __init__(self, node: ast.stmt | ast.expr, message: str, hint: str) -> None:
        self.node, self.message, self.hint = node, message, hint
        super().__init__(message)


def _refuse(node: ast.stmt | ast.expr, message: str, hint: str = _FORM) -> NoReturn:
    raise _WrongError(node, message, hint)


def _read_module(module: ast.Module) -> TraceData:
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    for node in module.body:
        if not (isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef) or _text_of(node) is not None):
            _refuse(node, "a trace is one function, and this stands outside of it")
    if len(functions) != 1:
        first = functions[1] if functions else (module.body or [ast.Pass(lineno=1, col_offset=0)])[0]
        _refuse(first, f"a trace is one function, and there are {len(functions)}")
    function = functions[0]
    taken = function.args
    others = (*taken.posonlyargs, *taken.kwonlyargs, *taken.defaults, taken.vararg, taken.kwarg)
    if len(taken.args) != 1 or any(others) or function.decorator_list:
        _refuse(function, "the function of a trace takes the schedule and nothing else, and has no decorator")
    head, *lines = function.body
    heading = _text_of(head)
    match = None if heading is None else _HEAD.fullmatch(heading)
    if match is None:
        _refuse(head, 'its first line says the program and its parameters, as in """dense[N=64]"""')
    params = tuple(_setting(head, part) for part in match[2].split(",") if part.strip())
    reader = LineReader(function.args.args[0].arg)
    return TraceData(match[1], params, tuple(reader.read(line) for line in lines if not isinstance(line, ast.Pass)))


class LineReader:
    """Reads lines in order. `labels` maps the variables so far to labels in the trace; `addresses` are those in use."""

    def __init__(self, schedule: str) -> None:
        self.schedule = schedule
        self.labels: dict[str, str] = {}
        self.addresses: set[str] = set()

    def copy(self) -> LineReader:
        other = LineReader(self.schedule)
        other.labels, other.addresses = dict(self.labels), set(self.addresses)
        return other

    def read_text(self, line: str) -> Instruction:
        """The instruction of one line that `trace_as_python` writes."""
        return self.read(ast.parse(line).body[0])

    def read(self, line: ast.stmt) -> Instruction:
        match line:
            case ast.Expr(value=ast.Call() as call):
                variables: list[str] = []
            case ast.Assign(targets=[target], value=ast.Call() as call):
                variables = _names(target)
            case _:
                _refuse(line, "a line of a trace is one call of the schedule, whose results may be given names")
        match call.func:
            case ast.Attribute(value=ast.Name(id=self.schedule), attr=op):
                pass
            case _:
                _refuse(call, f"only methods of `{self.schedule}` are called in a trace")
        declaration = registry().get(op)
        if declaration is None:
            _refuse(call, f"there is no primitive `{op}`", "metasched's documentation lists them")
        instruction = self._instruction(call, declaration, variables)
        for variable, label in zip(variables, instruction.outputs, strict=True):
            self.labels[variable] = label
        return normal_form(instruction)

    def _instruction(self, call: ast.Call, declaration: Declaration, variables: list[str]) -> Instruction:
        if any(keyword.arg is None for keyword in call.keywords):
            _refuse(call, "`**` stands for no argument of a trace")
        given = {str(keyword.arg): keyword.value for keyword in call.keywords}
        options = {name: given.pop(name) for name in _OF_A_LINE if name in given and _is_line_option(declaration, name)}
        named, written = self._positional(call, declaration)
        outputs = tuple(variables)
        if "labels" in options:
            outputs = tuple(self._text(item) for item in _items(options["labels"]))
            if len(outputs) != len(variables):
                _refuse(call, f"{len(variables)} results have {len(outputs)} labels")
        kinds = {param.name: param.kind for param in declaration.params}
        kwargs = tuple((name, self._value(value, kinds.get(name))) for name, value in given.items())
        made = Instruction(declaration.name, written, kwargs, outputs, declaration.random, version=declaration.version)
        if not declaration.random:
            return made
        name = self._text(options["name"]) if "name" in options else named or _default_name(made)
        address = self._text(options["address"]) if "address" in options else self._default_address(name)
        self.addresses.add(address)
        decision = self._decision(options["decision"], declaration) if "decision" in options else None
        return Instruction(made.op, made.args, made.kwargs, made.outputs, True, address, decision, version=made.version)

    def _positional(self, call: ast.Call, declaration: Declaration) -> tuple[str, tuple[Value, ...]]:
        """The name of a choice ('' for other calls), and the positional arguments."""
        if declaration.named:
            if len(call.args) != 2:
                _refuse(call, "a choice has a name and a list of options")
            return self._text(call.args[0]), tuple(self._value(item, None) for item in _items(call.args[1]))
        kinds: list[ArgumentKind | None] = [param.kind for param in declaration.params if not param.variadic]
        kinds += [None] * (len(call.args) - len(kinds))
        return "", tuple(self._value(value, kind) for value, kind in zip(call.args, kinds, strict=False))

    def _default_address(self, name: str) -> str:
        """The address that a schedule gives to a random variable of that name, outside of any scope."""
        number, address = 1, name
        while address in self.addresses:
            number += 1
            address = f"{name}#{number}"
        return address

    # --- values

    def _value(self, node: ast.expr, kind: ArgumentKind | None) -> Value:
        match node:
            case ast.Constant(value=str(text)) if kind is ArgumentKind.LOCATION:
                return Ref(text)
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" as text)]):
                return float(text)
            case ast.Name(id=name):
                return Ref(self._label(node, name))
            case ast.List() | ast.Tuple():
                return tuple(self._value(item, kind) for item in node.elts)
        return self._arithmetic(node)

    def _arithmetic(self, node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                return Const(number, INDEX)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return Const(-number, INDEX)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Unary(UnOp.NEG, self._arithmetic(operand))
            case ast.Name(id=name):
                return Var(self._label(node, name))
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS:
                return Binary(_OPERATORS[type(op)], self._arithmetic(a), self._arithmetic(b))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="ms"), attr=name), args=[a, b]) if name in _CALLS:
                return Binary(_CALLS[name], self._arithmetic(a), self._arithmetic(b))
            case ast.Call(func=func, args=[a]) if ast.unparse(func) == "ms.Int.of":
                return self._arithmetic(a)
        _refuse(
            node,
            f"`{_shorten_code(ast.unparse(node))}` has no meaning in a trace",
            "arguments are names, texts, numbers and lists, and + - * // %, ms.minimum, ms.maximum, ms.ceildiv",
        )

    def _label(self, node: ast.expr, name: str) -> str:
        if name not in self.labels:
            _refuse(node, f"`{name}` is the result of no line above", "texts are written in quotes")
        return self.labels[name]

    def _decision(self, node: ast.expr, declaration: Declaration) -> Decision | None:
        match node:
            case ast.Constant(value=None):
                return None
            case ast.List() | ast.Tuple():
                return from_python([self._plain(item) for item in node.elts], places=declaration.places)
        return from_python(self._plain(node), places=declaration.places)

    def _plain(self, node: ast.expr) -> str | bool | int | float | None:
        value = self._value(node, None)
        if not isinstance(value, str | bool | int | float | None):
            _refuse(node, "a decision is a plain value", "write the number it stands for")
        return value

    def _text(self, node: ast.expr) -> str:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            _refuse(node, "this is to be a text, in quotes")
        return node.value


def _is_line_option(declaration: Declaration, name: str) -> bool:
    """Whether a keyword is an option of the line rather than an argument of the primitive."""
    return name == "labels" or (declaration.random and (name != "name" or not declaration.named))


def _default_name(instruction: Instruction) -> str:
    """The default name of a random variable: the first handle that it samples."""
    handles = (arg.name for arg in instruction.args if isinstance(arg, Ref))
    return next(handles, instruction.op.removeprefix("sample_"))


def _shorten_code(code: str) -> str:
    return code if len(code) <= _MOST_SHOWN else code[:_MOST_SHOWN] + "..."


def _text_of(node: ast.stmt) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return None


def _names(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=items) | ast.List(elts=items) if all(isinstance(item, ast.Name) for item in items):
            return [item.id for item in items if isinstance(item, ast.Name)]
    _refuse(target, "results are given plain names")


def _items(node: ast.expr) -> Sequence[ast.expr]:
    if not isinstance(node, ast.List | ast.Tuple):
        _refuse(node, "this is to be a list")
    return node.elts


def _setting(node: ast.stmt, part: str) -> tuple[str, Setting]:
    name, separator, value = (piece.strip() for piece in part.partition("="))
    if not separator or not name.isidentifier() or not value:
        _refuse(node, f"`{part.strip()}` is no parameter; write NAME=VALUE")
    try:
        return name, int(value)
    except ValueError:
        return name, value
