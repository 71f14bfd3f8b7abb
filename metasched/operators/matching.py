"""Which expert traces were written for what a program computes, whatever its shape and its names.

A program is an operator where its definition is the operator's, or where it has the same stages: the same loops,
reductions and operations, on tensors that are indexed by the same loops. Numbers may differ: sizes, strides, constants.
A trace of one can then be replayed on the other, which checks whether each step is legal there. A program
that is an operator for each element of a batch takes its traces, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from metasched.dtypes import INDEX
from metasched.ir import query
from metasched.ir.affine import free_vars
from metasched.ir.nodes import Binary, BinOp, Block, Buffer, Call, Expr, For, Func, Load, Node, Select, Stmt, Store
from metasched.ir.program import Program
from metasched.lang.instructions import Instruction, Value
from metasched.operators.batched_trace import for_batch
from metasched.operators.batches import Batch, batch_of_one, batches, with_transposed_operands
from metasched.operators.experts import Expert, expert, expert_names
from metasched.operators.files import library_names
from metasched.operators.library import load
from metasched.schedule.kinds import Named
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Trace

_COMMUTATIVE = frozenset({BinOp.ADD, BinOp.MUL, BinOp.MIN, BinOp.MAX})


@dataclass(frozen=True)
class Names:
    """One program's names for the blocks and tensors of another."""

    blocks: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """An expert trace for a program of the same structure, whose names for the operator's `names` has.

    If only each element of a batch has that structure, or only with operands transposed, `batch` says how.
    """

    expert: Expert
    names: Names
    batch: Batch | None = None

    @property
    def written(self) -> Program:
        """The operator at the shape that the trace was written for."""
        return _header(self.expert.name)

    def tensors(self, program: Program) -> list[tuple[Buffer, Buffer]]:
        """The tensors that the trace was written for, each with the program's, or with an element of a batch of it."""
        given = (program if self.batch is None else self.batch.element).func
        return [(b, given.buffer(self.names.tensors.get(b.name, b.name))) for b in self.written.func.buffers()]

    def trace_for(self, program: Program, threads: int = 1) -> Trace:
        """The expert's trace in the program's names. It is to be replayed with `Policy.REPAIR`.

        What `threads` share of a batch depends on how many they are.

        Raises ScheduleError for a trace that cannot be carried over to a batch.
        """
        data = self.expert.trace.data
        instructions = tuple(self._renamed(i) for i in data.instructions)
        trace = Trace(replace(data, program=program.name, params=program.params, instructions=instructions))
        return trace if self.batch is None else for_batch(trace, self.batch, program, threads)

    def _renamed(self, instruction: Instruction) -> Instruction:
        args: list[Value] = list(instruction.args)
        for place, named in registry()[instruction.op].naming.items():
            renamed = self.names.blocks if named is Named.BLOCK else self.names.tensors
            written = args[place] if place < len(args) else None
            if isinstance(written, str):
                args[place] = renamed.get(written, written)
        return replace(instruction, args=tuple(args))


def fits(program: Program) -> tuple[Fit, ...]:
    """The expert traces for what a program computes, sorted by name; none for a program that is no operator.

    Where nothing fits a program as it is, nor an element of a batch of it, operands that are matrices are transposed.
    A program that was not loaded from the library is compared with each of its operators, which the first such call
    reads: that takes 0.1 to 0.2 s.
    """
    found = [Fit(expert(name), renamed) for operator, renamed in _operator_of(program) for name in _traces(operator)]
    several = list(batches(program))
    found += [fit for batch in several for fit in _fits_of_element(batch)]
    if not found:
        ways = (way for batch in (batch_of_one(program), *several) for way in with_transposed_operands(batch))
        found = next((fits for way in ways if (fits := _fits_of_element(way))), [])
    return tuple(sorted(found, key=lambda fit: fit.expert.name))


def _fits_of_element(batch: Batch) -> list[Fit]:
    operators = _by_structure(batch.element.func)
    return [Fit(expert(name), renamed, batch) for operator, renamed in operators for name in _traces(operator)]


def _operator_of(program: Program) -> list[tuple[str, Names]]:
    """The operator that a program is, and its names for the operator's; none or one."""
    if program.name in library_names() and _usual(program.name).definition == program.definition:
        return [(program.name, Names())]
    return _by_structure(program.func)


def _by_structure(func: Func) -> list[tuple[str, Names]]:
    """The operator that a function is by its structure, and its names for the operator's; none or one."""
    for operator in dict.fromkeys(name.partition(".")[0] for name in expert_names()):
        if _counts(_usual(operator).func) != _counts(func):
            continue
        for written in _written(operator):
            renamed = names_between(written.func, func)
            if renamed is not None:
                return [(operator, renamed)]
    return []


def _traces(operator: str) -> list[str]:
    return [name for name in expert_names() if name.partition(".")[0] == operator]


@cache
def _usual(operator: str) -> Program:
    return load(operator)


def _written(operator: str) -> Iterator[Program]:
    """The operator with its own parameters, then as its traces were written for it: some give it another structure."""
    yield _usual(operator)
    yield from (_header(name) for name in _traces(operator))


@cache
def _header(name: str) -> Program:
    return expert(name).program()


# --- structure


def names_between(one: Func, other: Func) -> Names | None:
    """The names in `other` of the blocks and tensors of `one`; None if the structure differs.

    Element types may differ, and so may every number.
    """
    if _counts(one) != _counts(other):
        return None
    found = _stmt(one.body, other.body, {})
    if found is None:
        return None
    blocks, tensors = ({a: b for (of, a), b in found.items() if of is kind} for kind in (Block, Load))
    return Names(blocks, tensors)


def _counts(func: Func) -> tuple[int, ...]:
    return len(func.inputs), len(func.outputs), len(func.temps), len(func.scalars), len(query.blocks(func))


# A name, and whether it names a block or something loaded from.
_Name = tuple[type[Block] | type[Load], str]
_Known = dict[_Name, str]


def _stmt(a: Stmt, b: Stmt, known: _Known) -> _Known | None:
    if isinstance(a, For) and isinstance(b, For):
        return _stmt(a.body, b.body, known)
    if isinstance(a, Block) and isinstance(b, Block):
        return _block(a, b, known)
    below = [[child for child in s.children() if isinstance(child, Stmt)] for s in (a, b)]
    if type(a) is not type(b) or len(below[0]) != len(below[1]):
        return None
    found: _Known | None = known
    for x, y in zip(*below, strict=True):
        found = None if found is None else _stmt(x, y, found)
    return found


def _block(a: Block, b: Block, known: _Known) -> _Known | None:
    kinds = [[it.kind for it in block.iters] for block in (a, b)]
    if kinds[0] != kinds[1] or a.reducer is not b.reducer or len(a.stores) != len(b.stores):
        return None
    places = tuple({it.name: n for n, it in enumerate(block.iters)} for block in (a, b))
    found = _paired((Block, a.name), b.name, known)
    for x, y in zip(a.stores, b.stores, strict=True):
        found = None if found is None else _store(x, y, found, _Scope(*places))
    return found


@dataclass(frozen=True)
class _Scope:
    """Where two blocks have their iteration variables."""

    one: Mapping[str, int]
    other: Mapping[str, int]

    def same_uses(self, a: Expr, b: Expr) -> bool:
        """Whether two indices depend on the same iteration variables."""
        return {self.one.get(n) for n in free_vars(a)} == {self.other.get(n) for n in free_vars(b)}


def _store(a: Store, b: Store, known: _Known, scope: _Scope) -> _Known | None:
    found = _access((a.buffer, a.indices), (b.buffer, b.indices), known, scope)
    return None if found is None else _expr(a.value, b.value, found, scope)


_Access = tuple[str, tuple[Expr, ...]]


def _access(a: _Access, b: _Access, known: _Known, scope: _Scope) -> _Known | None:
    if len(a[1]) != len(b[1]) or not all(scope.same_uses(x, y) for x, y in zip(a[1], b[1], strict=True)):
        return None
    return _paired((Load, a[0]), b[0], known)


def _paired(a: _Name, b: str, known: _Known) -> _Known | None:
    """`known` with this pair added; None if either name is already paired with another."""
    if a in known:
        return known if known[a] == b else None
    taken = any(of is a[0] and name == b for (of, _), name in known.items())
    return None if taken else {**known, a: b}


def _expr(a: Expr, b: Expr, known: _Known, scope: _Scope) -> _Known | None:
    if a.dtype is INDEX and b.dtype is INDEX and not (_reads(a) or _reads(b)):
        return known if scope.same_uses(a, b) else None
    if isinstance(a, Load) and isinstance(b, Load):
        return _access((a.buffer, a.indices), (b.buffer, b.indices), known, scope)
    if type(a) is not type(b) or (isinstance(a, Call) and isinstance(b, Call) and a.func != b.func):
        return None
    if isinstance(a, Select) and isinstance(b, Select) and not (_reads(a.cond) or _reads(b.cond)):
        same = scope.same_uses(a.cond, b.cond)
        return _all([(a.then, b.then), (a.otherwise, b.otherwise)], known, scope) if same else None
    if isinstance(a, Binary) and isinstance(b, Binary):
        return _binary(a, b, known, scope)
    return _all(list(zip(_operands(a), _operands(b), strict=False)), known, scope)


def _binary(a: Binary, b: Binary, known: _Known, scope: _Scope) -> _Known | None:
    if a.op is not b.op:
        return None
    found = _all([(a.a, b.a), (a.b, b.b)], known, scope)
    if found is None and a.op in _COMMUTATIVE:
        return _all([(a.a, b.b), (a.b, b.a)], known, scope)
    return found


def _all(pairs: list[tuple[Expr, Expr]], known: _Known, scope: _Scope) -> _Known | None:
    found: _Known | None = known
    for a, b in pairs:
        found = None if found is None else _expr(a, b, found, scope)
    return found


def _operands(e: Expr) -> list[Expr]:
    return [child for child in e.children() if isinstance(child, Expr)]


def _reads(e: Node) -> bool:
    return any(isinstance(n, Load) for n in e.walk())
