"""Index expressions as sums of coefficients times atoms, ready to be evaluated over a population.

An index such as `i0*(t1*t2) + i1*t2 + f // ceildiv(512, t3)` is a constant plus terms; a term is a coefficient
without loop variables times an *atom*: a loop, or a quotient, remainder or clamp of another such sum. What is not
of this form (an index read from a buffer, a product of loops) is an `Unknown` atom, taken to reach anywhere in its
dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from metasched.ir.data import depends_on_data
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, UnOp, Var


class Table:
    """Distinct expressions without loop variables, numbered in order of first use."""

    def __init__(self) -> None:
        self._slots: dict[Expr, int] = {}
        self.unknown = 0

    def slot(self, expr: Expr) -> int:
        return self._slots.setdefault(expr, len(self._slots))

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return tuple(self._slots)


@dataclass(frozen=True)
class LoopAtom:
    """A loop, by its depth."""

    loop: int


@dataclass(frozen=True)
class QuotientAtom:
    """`value // divisor`; the divisor is a slot."""

    value: Index
    divisor: int


@dataclass(frozen=True)
class RemainderAtom:
    """`value % divisor`; the divisor is a slot."""

    value: Index
    divisor: int


@dataclass(frozen=True)
class ClampAtom:
    """`min(value, bound)` or `max(value, bound)`: reaches no further than `value`."""

    value: Index


@dataclass(frozen=True)
class UnknownAtom:
    """Something that depends on `loops`, nobody knows how."""

    loops: frozenset[int]


Atom = LoopAtom | QuotientAtom | RemainderAtom | ClampAtom | UnknownAtom


@dataclass(frozen=True)
class IndexTerm:
    """`coefficient` is a slot."""

    coefficient: int
    atom: Atom


@dataclass(frozen=True)
class Index:
    """`constant` (a slot) plus `terms`."""

    constant: int
    terms: tuple[IndexTerm, ...]

    def uses(self, loop: int) -> bool:
        return loop in self.loops

    @cached_property
    def loops(self) -> frozenset[int]:
        out: frozenset[int] = frozenset()
        for term in self.terms:
            out |= _atom_loops(term.atom)
        return out


def _atom_loops(atom: Atom) -> frozenset[int]:
    if isinstance(atom, LoopAtom):
        return frozenset({atom.loop})
    if isinstance(atom, UnknownAtom):
        return atom.loops
    return atom.value.loops


ZERO = Const(0)
ONE = Const(1)


def _add(a: Expr, b: Expr) -> Expr:
    if a == ZERO:
        return b
    return a if b == ZERO else a + b


def _mul(a: Expr, b: Expr) -> Expr:
    if a == ONE:
        return b
    return a if b == ONE else a * b


@dataclass(frozen=True)
class _Sum:
    """An index under construction: the coefficients are still expressions."""

    constant: Expr
    terms: tuple[tuple[Expr, Atom], ...] = ()

    def plus(self, other: _Sum) -> _Sum:
        terms = list(self.terms)
        for coefficient, atom in other.terms:
            for n, (old, existing) in enumerate(terms):
                if existing == atom:
                    terms[n] = (_add(old, coefficient), atom)
                    break
            else:
                terms.append((coefficient, atom))
        return _Sum(_add(self.constant, other.constant), tuple(terms))

    def times(self, factor: Expr) -> _Sum:
        return _Sum(_mul(self.constant, factor), tuple((_mul(c, factor), atom) for c, atom in self.terms))


def index_of(expr: Expr, loop_of: Mapping[str, int], table: Table) -> Index:
    """`expr` over the loops named in `loop_of` (name to depth); its sizes go into `table`."""
    return _finish(_sum(expr, loop_of, table), table)


def _finish(total: _Sum, table: Table) -> Index:
    return Index(
        table.slot(total.constant),
        tuple(IndexTerm(table.slot(coefficient), atom) for coefficient, atom in total.terms),
    )


def _loops_in(expr: Expr, loop_of: Mapping[str, int]) -> frozenset[int]:
    names = (node.name for node in expr.walk() if isinstance(node, Var))
    return frozenset(loop_of[name] for name in names if name in loop_of)


def _sum(expr: Expr, loop_of: Mapping[str, int], table: Table) -> _Sum:
    loops = _loops_in(expr, loop_of)
    if depends_on_data(expr):
        return _data(expr, loops, loop_of, table)
    if not loops and not any(type(node) not in (Const, Var, Binary, Unary) for node in expr.walk()):
        return _Sum(expr)
    if isinstance(expr, Var):
        return _Sum(ZERO, ((ONE, LoopAtom(loop_of[expr.name])),))
    if isinstance(expr, Unary) and expr.op is UnOp.NEG:
        return _sum(expr.a, loop_of, table).times(Const(-1))
    if isinstance(expr, Binary):
        found = _binary(expr, loop_of, table)
        if found is not None:
            return found
    table.unknown += 1
    return _Sum(ZERO, ((ONE, UnknownAtom(loops)),))


def _data(expr: Expr, loops: frozenset[int], loop_of: Mapping[str, int], table: Table) -> _Sum:
    """An index that depends on data: nobody knows how, beyond what is added to it."""
    if isinstance(expr, Binary) and expr.op is BinOp.ADD:
        return _sum(expr.a, loop_of, table).plus(_sum(expr.b, loop_of, table))
    table.unknown += 1
    return _Sum(ZERO, ((ONE, UnknownAtom(loops)),))


def _binary(expr: Binary, loop_of: Mapping[str, int], table: Table) -> _Sum | None:
    a_moves = bool(_loops_in(expr.a, loop_of))
    b_moves = bool(_loops_in(expr.b, loop_of))
    if expr.op is BinOp.ADD:
        return _sum(expr.a, loop_of, table).plus(_sum(expr.b, loop_of, table))
    if expr.op is BinOp.SUB:
        return _sum(expr.a, loop_of, table).plus(_sum(expr.b, loop_of, table).times(Const(-1)))
    if expr.op is BinOp.MUL and not (a_moves and b_moves):
        moving, factor = (expr.a, expr.b) if a_moves else (expr.b, expr.a)
        return _sum(moving, loop_of, table).times(factor)
    if expr.op in (BinOp.FLOORDIV, BinOp.CEILDIV) and not b_moves:
        return _Sum(ZERO, ((ONE, QuotientAtom(index_of(expr.a, loop_of, table), table.slot(expr.b))),))
    if expr.op is BinOp.MOD and not b_moves:
        return _Sum(ZERO, ((ONE, RemainderAtom(index_of(expr.a, loop_of, table), table.slot(expr.b))),))
    if expr.op in (BinOp.MIN, BinOp.MAX) and not (a_moves and b_moves):
        moving = expr.a if a_moves else expr.b
        return _Sum(ZERO, ((ONE, ClampAtom(index_of(moving, loop_of, table))),))
    return None
