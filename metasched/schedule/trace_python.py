"""A trace as Python: a function over a schedule that takes the same steps."""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import field, replace

from metasched.errors import ScheduleError
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, UnOp, Var
from metasched.ir.program import Program
from metasched.ir.source import Apply, IntLit, Name, Operation, Prefix, SourceExpr
from metasched.ir.source_printer import print_source
from metasched.lang.decisions import to_python
from metasched.lang.instructions import Instruction, Ref, TraceData, Value
from metasched.schedule.handlers import Handler, PickByFunction, Symbolic, first_option
from metasched.schedule.interpreter import Interpreter
from metasched.schedule.primitive import Declaration
from metasched.schedule.trace_python_reader import LineReader
from metasched.schedule.versions import current_form
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an

_CALLS = {BinOp.MIN: "ms.minimum", BinOp.MAX: "ms.maximum", BinOp.CEILDIV: "ms.ceildiv"}
_ARITHMETIC = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.FLOORDIV, BinOp.MOD})
_RESERVED_NAMES = frozenset({*keyword.kwlist, "ms", "sch", "schedule", "float"})


def _open_handler() -> Handler:
    return Symbolic(PickByFunction(first_option))


def trace_as_python(trace: TraceData, program: Program | None) -> str:
    """A module with `def schedule(sch)`, which on `ms.Schedule(program)` gives an equal trace, decisions included.

    Every line has the labels of its results and the address of a random variable. If the program is given, those equal
    to the defaults are omitted. An open variable is drawn when the code runs.

    Raises ScheduleError for an instruction that does not apply to the program, or has no Python form.
    """
    writer = _Writer(Interpreter(program, handler=_open_handler()) if program is not None else None)
    lines: list[str] = []
    for number, instruction in enumerate(trace.instructions, start=2):
        try:
            lines.append(writer.line(instruction))
        except ScheduleError as error:
            error.line = number
            raise
    params = ", ".join(f"{name}={value}" for name, value in trace.params)
    body = lines or ["pass"]
    head = ["import metasched as ms", "", "", "def schedule(sch: ms.Schedule) -> None:"]
    return "\n".join([*head, f'    """{trace.program}[{params}]"""', *(f"    {line}" for line in body)]) + "\n"


@dataclass
class _Writer:
    """`schedule` is the state after the lines written so far; None if the program is not known."""

    schedule: Interpreter | None
    variables: dict[str, str] = field(default_factory=dict)
    reader: LineReader = field(default_factory=lambda: LineReader("sch"))

    def line(self, instruction: Instruction) -> str:
        declaration, current = current_form(instruction)
        calls = self._shortest_first(declaration, current)
        targets = [self._variable(label) for label in current.outputs]
        *short, whole = (_assign(declaration, targets) + call for call in calls)
        written = next((line for line in short if self._reads_as(line, current)), whole)
        if self.schedule is not None:
            self.schedule.handler = _handler(current)
            self.schedule.execute(current)
        self.reader.read_text(written)
        return written

    def _reads_as(self, line: str, current: Instruction) -> bool:
        """Whether `LineReader`, which does not run the code, derives the same labels and address."""
        read = self.reader.copy().read_text(line)
        return (read.outputs, read.address) == (current.outputs, current.address)

    def _shortest_first(self, declaration: Declaration, current: Instruction) -> list[str]:
        """Forms of the call, shortest first: without the keywords that are defaults, up to all keywords."""
        keywords = self._keywords(declaration, current)
        calls = []
        if self.schedule is not None:
            for without in ({"labels", "address"}, {"labels"}, {"address"}):
                tried = {key: text for key, text in keywords.items() if key not in without}
                if len(tried) < len(keywords) and self._gives(declaration, current, tried.keys()):
                    calls.append(self._call(declaration, current, tried))
        return [*calls, self._call(declaration, current, keywords)]

    def _gives(self, declaration: Declaration, current: Instruction, keywords: Collection[str]) -> bool:
        """Whether a call with only these keywords makes the same line."""
        assert self.schedule is not None
        trial = self.schedule.fork(_handler(current))
        shortened = replace(
            current,
            outputs=current.outputs if "labels" in keywords else (),
            address=current.address if "address" in keywords else None,
        )
        if declaration.named:
            more = {"address": shortened.address, "labels": shortened.outputs}
            getattr(trial, declaration.name)(choice_name(current), list(current.args), **more)
        else:
            trial.execute(shortened)
        made = trial.instructions[-1]
        return (made.outputs, made.address) == (current.outputs, current.address)

    def _keywords(self, declaration: Declaration, current: Instruction) -> dict[str, str]:
        keywords: dict[str, str] = {}
        if declaration.random and current.address is not None:
            keywords["address"] = json.dumps(current.address)
        if current.outputs:
            keywords["labels"] = "[" + ", ".join(json.dumps(label) for label in current.outputs) + "]"
        if current.decision is not None:
            keywords["decision"] = _literal(to_python(current.decision))
        return keywords

    def _call(self, declaration: Declaration, current: Instruction, keywords: dict[str, str]) -> str:
        args = [self._value(arg) for arg in current.args]
        if declaration.named:
            args = [json.dumps(choice_name(current)), "[" + ", ".join(args) + "]"]
        args += [f"{name}={self._value(value)}" for name, value in current.kwargs]
        args += [f"{key}={text}" for key, text in keywords.items()]
        return f"sch.{declaration.name}({', '.join(args)})"

    def _variable(self, label: str) -> str:
        """A Python variable for a label, unique among labels."""
        name = label
        while name in _RESERVED_NAMES or name in (v for known, v in self.variables.items() if known != label):
            name += "_"
        self.variables[label] = name
        return name

    def _value(self, value: Value) -> str:
        match value:
            case Ref(name=name):
                return self.variables.get(name, json.dumps(name))
            case Expr():
                return print_source(self._expression(value))
            case tuple():
                return "[" + ", ".join(self._value(item) for item in value) + "]"
        return _literal(value)

    def _expression(self, e: Expr) -> SourceExpr:
        match e:
            case Const(value=int(value)) if not isinstance(value, bool):
                return IntLit(value)
            case Binary(op=op, a=a, b=b) if op in _CALLS:
                return Apply(_CALLS[op], (self._expression(a), self._expression(b)))
            case Binary(op=op, a=a, b=b) if op in _ARITHMETIC:
                left = self._expression(a)
                both = isinstance(a, Const) and isinstance(b, Const)
                return Operation(op, Apply("ms.Int.of", (left,)) if both else left, self._expression(b))
            case Unary(op=UnOp.NEG, a=Const() as a):
                return Prefix(UnOp.NEG, Apply("ms.Int.of", (self._expression(a),)))
            case Unary(op=UnOp.NEG, a=a):
                return Prefix(UnOp.NEG, self._expression(a))
            case Var(name=name):
                return Name(self.variables.get(name, name))
        raise ScheduleError(
            "as_python",
            f"Python cannot say the arithmetic of {a_or_an(type(e).__name__)} over random variables",
            hint="integer variables combine with + - * // %, minimum, maximum and ceildiv",
        )


def _handler(instruction: Instruction) -> Handler:
    decision = instruction.decision
    return _open_handler() if decision is None else PickByFunction(lambda site: decision)


def choice_name(instruction: Instruction) -> str:
    """The name given to a choice: the last part of its address, without a number."""
    return re.sub(r"#\d+$", "", (instruction.address or "").rsplit("/", 1)[-1]) or instruction.op


def _assign(declaration: Declaration, targets: Sequence[str]) -> str:
    if not targets:
        return ""
    single = len(targets) == 1 and declaration.many_results
    return f"({targets[0]},) = " if single else ", ".join(targets) + " = "


def _literal(value: object) -> str:
    """A plain value, or a sequence of these, as Python writes it."""
    match value:
        case str():
            return json.dumps(value)
        case tuple():
            return "[" + ", ".join(_literal(item) for item in value) + "]"
        case float() if not math.isfinite(value):
            return f'float("{value}")'
    return repr(value)
