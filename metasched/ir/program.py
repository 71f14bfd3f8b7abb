"""A program with its parameters set: what is computed, as written and as IR."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum

from metasched.dtypes import INDEX
from metasched.errors import MetaschedError
from metasched.ir.highlight import html_text
from metasched.ir.node_base import Node, field_names
from metasched.ir.nodes import Binary, BinOp, Block, Buffer, Expr, For, Func, Scalar, Stmt, Var
from metasched.ir.notebook import table
from metasched.ir.printer import print_expr, print_func
from metasched.ir.source import ProgramDef as ProgramDef
from metasched.ir.source import Setting
from metasched.ir.source_printer import print_params, print_program
from metasched.ir.work import Work, work_of
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an


@dataclass(frozen=True)
class Program:
    """A definition, its parameters (all of them, in the definition's order), and the unscheduled IR.

    Equal definitions with equal parameters are equal programs; `str(program)` is the canonical text.
    """

    definition: ProgramDef
    params: tuple[tuple[str, Setting], ...]
    func: Func = field(repr=False)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def key(self) -> str:
        """The program and its parameters for a person to read: `dense_relu[N=512, M=512, K=512]`."""
        return self.name + print_params(self.params)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.func.inputs

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return self.func.scalars

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.func.outputs

    @cached_property
    def work(self) -> Work:
        """The arithmetic of one run."""
        return work_of(self.func.body)

    @property
    def flops(self) -> int:
        """Floating-point operations of one run, counted as in `Work`."""
        return self.work.floats

    def structural_hash(self) -> str:
        """A hash (SHA-256, 64 hex digits) of the IR that no renaming changes."""
        return self._structural_hash

    @cached_property
    def _structural_hash(self) -> str:
        return hashlib.sha256(_canonical(self.func).encode()).hexdigest()

    def named_hash(self) -> str:
        """A hash of the IR, its names and the parameters: equal where a trace of one program applies to the other."""
        return hashlib.sha256(f"{self.key}\n{_canonical(self.func)}\n{print_func(self.func)}".encode()).hexdigest()

    def __str__(self) -> str:
        return print_program(self.definition)

    def __repr__(self) -> str:
        given = [f"{name}: {said}" for name, said in self.arguments()]
        made = [f"{b.name}: {_type_text(b)}" for b in self.outputs]
        results = made[0] if len(made) == 1 else f"({', '.join(made)})"
        stages = len(self.definition.stages)
        return f"<program {self.key}({', '.join(given)}) -> {results}, {stages} stage{'s' * (stages != 1)}>"

    def _repr_html_(self) -> str:
        rows = [*self.arguments(), *((f"-> {b.name}", _type_text(b)) for b in self.outputs)]
        return table(f"program {self.key}", rows, html_text(str(self)))

    def arguments(self) -> list[tuple[str, str]]:
        """Names and types of the arguments in calling order, as texts."""
        types = {b.name: _type_text(b) for b in self.inputs} | {s.name: str(s.dtype) for s in self.scalars}
        return [(name, types[name]) for name in self.func.order]

    def __getstate__(self) -> dict[str, object]:
        return {"definition": self.definition, "params": self.params, "func": self.func}


def _type_text(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{', '.join(map(print_expr, buffer.shape))}]"


def _canonical(func: Func) -> str:
    """The IR as text, every name replaced by its number: of a tensor or scalar, a loop, or a block's variable."""
    names = [b.name for b in func.inputs] + [s.name for s in func.scalars] + [b.name for b in func.outputs + func.temps]
    renamed = {name: f"t{n}" for n, name in enumerate(names)}
    order = [renamed[name] for name in func.order]
    signature = [_text(part, renamed) for part in (func.inputs, func.scalars, func.outputs, func.temps)]
    return ";".join([*order, *signature, _stmt_text(func.body, renamed, [])])


def _stmt_text(stmt: Stmt, names: Mapping[str, str], loops: list[str]) -> str:
    if isinstance(stmt, For):
        loops.append(stmt.var)
        inside = {**names, stmt.var: f"v{len(loops)}"}
        head = _text((stmt.extent, stmt.kind, stmt.lanes, stmt.annotations), names)
        return f"for({head}){{{_stmt_text(stmt.body, inside, loops)}}}"
    if isinstance(stmt, Block):
        inside = {**names, **{iv.name: f"i{n}" for n, iv in enumerate(stmt.iters)}}
        fields: tuple[object, ...] = (stmt.iters, stmt.guards, stmt.store, stmt.reducer, stmt.init, stmt.annotations)
        fields += () if stmt.index is None else (stmt.index,)
        return f"block({_text(stmt.bindings, names)};{_text(fields, inside)})"
    return ";".join(_stmt_text(child, names, loops) for child in stmt.children() if isinstance(child, Stmt))


def _terms(value: Expr, names: Mapping[str, str], sign: str) -> Iterator[str]:
    """The terms of a sum of integers, each after its sign."""
    if isinstance(value, Binary) and value.op in (BinOp.ADD, BinOp.SUB):
        yield from _terms(value.a, names, sign)
        yield from _terms(value.b, names, sign if value.op is BinOp.ADD else _OPPOSITE[sign])
    else:
        yield sign + _text(value, names)


_OPPOSITE = {"+": "-", "-": "+"}


def _text(value: object, names: Mapping[str, str]) -> str:
    """A node or a field of one; strings that are names of this program are renamed, others are kept."""
    match value:
        case Binary(op=BinOp.ADD | BinOp.SUB) if value.dtype is INDEX:
            # The terms of an index are sorted by names: here, by what stands for these.
            return f"Sum({','.join(sorted(_terms(value, names, '+')))})"
        case Node():
            fields = [getattr(value, name) for name in field_names(type(value))]
            # Argument or loop: a name says which.
            kind = Var if isinstance(value, Var) else type(value)
            return f"{kind.__name__}{_text(tuple(fields), names)}"
        case tuple():
            return "(" + ",".join(_text(item, names) for item in value) + ")"
        case str():
            return names.get(value, value)
        case Enum():
            return str(value.value)
    return repr(value)


def require_program(program: object) -> None:
    """Raises MetaschedError for what is no program, such as the text of one."""
    if not isinstance(program, Program):
        raise MetaschedError(
            f"`program` is {a_or_an(type(program).__name__)}, not a Program",
            hint="make one by parse_program(text) or load_program(path)",
        )
