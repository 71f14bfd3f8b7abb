"""The source tree of a module, and its printer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

from metasched.ir.source import Apply, SourceExpr, SourceNode, TextLit
from metasched.ir.source_printer import print_source
from metasched.lang.decisions import print_decision
from metasched.lang.instructions import Decision
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Setting(SourceNode):
    """`innermost=64`, a keyword parameter with its default: a plain value, or a list of such."""

    name: str
    default: SourceExpr


@dataclass(frozen=True)
class AssignedName(SourceNode):
    """A name that a statement defines; a starred one takes as many results as the others leave."""

    name: str
    starred: bool = False


@dataclass(frozen=True)
class Bind(SourceNode):
    """`i0, i1 = split(i, [x, y])`; `loops = get_loops(block)`; `z = x * 2`."""

    targets: tuple[AssignedName, ...]
    value: SourceExpr


@dataclass(frozen=True)
class Draw(SourceNode):
    """`x, y ~ sample_tile(i, parts=2) @ "i" := [_, 8]`: a random variable, its name, and its fixed decision."""

    targets: tuple[AssignedName, ...]
    call: Apply
    address: str | None = None
    decision: Decision | None = None


@dataclass(frozen=True)
class Run(SourceNode):
    """`parallel(i)`: a call whose results have no name."""

    call: Apply


@dataclass(frozen=True)
class Give(SourceNode):
    """`return i0, i1`: the results of the module, and its end."""

    values: tuple[SourceExpr, ...]


@dataclass(frozen=True)
class SkipLine(SourceNode):
    """`skip "it is a reduction"`: the module does not apply."""

    reason: SourceExpr


@dataclass(frozen=True)
class Alternative(SourceNode):
    """A condition, and the statements to run if it is the first that holds."""

    test: SourceExpr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Branch(SourceNode):
    """`if`, each `elif`, and `else`."""

    alternatives: tuple[Alternative, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class LoopStatement(SourceNode):
    """`for i in loops:`, once for each item of a list."""

    targets: tuple[AssignedName, ...]
    over: SourceExpr
    body: tuple[Statement, ...]


Simple: TypeAlias = Bind | Draw | Run | Give | SkipLine
Statement: TypeAlias = Simple | Branch | LoopStatement


@dataclass(frozen=True)
class ModuleDef(SourceNode):
    """A module. `doc` is the texts it begins with, a line each; `parameters` are names of handles."""

    name: str
    settings: tuple[Setting, ...]
    parameters: tuple[AssignedName, ...]
    doc: str
    body: tuple[Statement, ...]

    def calls(self) -> Iterator[Apply]:
        """Every call in the module, in reading order."""
        return (node for node in self.walk() if isinstance(node, Apply))


def print_module(module: ModuleDef) -> str:
    """The canonical text of a module, ending in a newline."""
    settings = ", ".join(f"{s.name}={print_source(s.default)}" for s in module.settings)
    bracketed = f"[{settings}]" if settings else ""
    parameters = ", ".join(p.name for p in module.parameters)
    lines = [f"module {module.name}{bracketed}({parameters}):"]
    lines += [f"    {json.dumps(line)}" for line in module.doc.split("\n") if module.doc]
    lines += _body(module.body, 1)
    return "\n".join(lines) + "\n"


def print_statement(statement: Simple) -> str:
    """A statement of one line, without indentation."""
    match statement:
        case Bind(targets=targets, value=value):
            return f"{_targets(targets)} = {print_source(value)}"
        case Draw(targets=targets, call=call, address=address, decision=decision):
            name = f" @ {json.dumps(address)}" if address is not None else ""
            taken = f" := {print_decision(decision)}" if decision is not None else ""
            return f"{_targets(targets)} ~ {print_source(call)}{name}{taken}"
        case Run(call=call):
            return print_source(call)
        case Give(values=values):
            return f"return {_values(values)}".rstrip()
        case SkipLine(reason=reason):
            return f"skip {print_source(reason)}"


def _body(statements: tuple[Statement, ...], depth: int) -> list[str]:
    return [line for statement in statements for line in _statement(statement, depth)]


def _statement(statement: Statement, depth: int) -> list[str]:
    indent = "    " * depth
    match statement:
        case Branch(alternatives=alternatives, otherwise=otherwise):
            lines: list[str] = []
            for word, a in zip(["if", *["elif"] * len(alternatives)], alternatives, strict=False):
                lines += _branch_lines(f"{indent}{word} {print_source(a.test)}:", a.body, depth)
            return lines + (_branch_lines(f"{indent}else:", otherwise, depth) if otherwise else [])
        case LoopStatement(targets=targets, over=over, body=body):
            return _branch_lines(f"{indent}for {_targets(targets)} in {print_source(over)}:", body, depth)
        case _:
            return [indent + print_statement(statement)]


def _branch_lines(head: str, body: tuple[Statement, ...], depth: int) -> list[str]:
    """The lines of a branch; a lone `skip` goes on the line of its condition."""
    match body:
        case (SkipLine(reason=TextLit()) as only,):
            return [f"{head} {print_statement(only)}"]
    return [head, *_body(body, depth + 1)]


def _targets(targets: tuple[AssignedName, ...]) -> str:
    return ", ".join("*" * t.starred + t.name for t in targets)


def _values(values: tuple[SourceExpr, ...]) -> str:
    return ", ".join(print_source(value) for value in values)
