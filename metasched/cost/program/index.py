"""Index expressions as sums of coefficients times atoms, ready to be evaluated over a population.

An index such as `i0*(t1*t2) + i1*t2 + f // ceildiv(512, t3)` is a constant plus terms; a term is a coefficient
without loop variables times an *atom*: a loop, or a quotient, remainder or clamp of another such sum. What is not
of this form (an index read from a buffer, a product of loops) is an `Unknown` atom, taken to reach anywhere in its
dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from metasched.dtypes import INDEX
from metasched.ir.integers.affine import ONE, ZERO, free_vars, terms_over
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, Var
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass


class Table:
    """Distinct expressions without loop variables, numbered in order of first use. `used` are the numbers given since
    `clear_used`."""

    def __init__(self) -> None:
        self._slots: dict[Expr, int] = {}
        self.clear_used()

    def clear_used(self) -> None:
        """Forget which numbers are used."""
        self.used: set[int] = set()

    def slot(self, expr: Expr) -> int:
        number = self._slots.setdefault(expr, len(self._slots))
        self.used.add(number)
        return number

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return tuple(self._slots)


@dataclass(frozen=True)
class LoopAtom:
    """A loop, by its depth."""

    loop: int

    @cached_property
    def loops(self) -> frozenset[int]:
        return frozenset({self.loop})


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
    """Something that depends on `loops` in a way that is not known."""

    loops: frozenset[int]


Atom = LoopAtom | QuotientAtom | RemainderAtom | ClampAtom | UnknownAtom


@dataclass(frozen=True)
class IndexTerm:
    """A coefficient, as a slot of the table, times an atom."""

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
    def bare(self) -> frozenset[int]:
        """The loops that are terms themselves."""
        return frozenset(term.atom.loop for term in self.terms if isinstance(term.atom, LoopAtom))

    @cached_property
    def loops(self) -> frozenset[int]:
        out: frozenset[int] = frozenset()
        for term in self.terms:
            out |= loops_of(term.atom)
        return out


def loops_of(atom: Atom) -> frozenset[int]:
    """The loops that an atom depends on."""
    if isinstance(atom, LoopAtom):
        return atom.loops
    if isinstance(atom, UnknownAtom):
        return atom.loops
    return atom.value.loops


def index_of(expr: Expr, loop_of: Mapping[str, int], table: Table) -> Index:
    """`expr` over the loops named in `loop_of` (name to depth); its sizes go into `table`."""
    if expr.dtype is not INDEX:
        return Index(table.slot(ZERO), (IndexTerm(table.slot(ONE), _unknown_atom((expr,), loop_of, table)),))
    base, products = terms_over(expr, frozenset(loop_of))
    terms = [_term(product, coefficient, loop_of, table) for product, coefficient in products.items()]
    if not _is_of_sizes(base):
        terms.append(IndexTerm(table.slot(ONE), _unknown_atom((base,), loop_of, table)))
        base = ZERO
    return Index(table.slot(base), tuple(terms))


def _term(product: tuple[Expr, ...], coefficient: Expr, loop_of: Mapping[str, int], table: Table) -> IndexTerm:
    if not _is_of_sizes(coefficient):
        return IndexTerm(table.slot(ONE), _unknown_atom((*product, coefficient), loop_of, table))
    atom = _atom(product[0], loop_of, table) if len(product) == 1 else None
    return IndexTerm(table.slot(coefficient), _unknown_atom(product, loop_of, table) if atom is None else atom)


@lru_cache(maxsize=1 << 14)
def _is_of_sizes(expr: Expr) -> bool:
    """Whether an expression without loops is a number that tile sizes make."""
    return not depends_on_data(expr) and all(type(node) in (Const, Var, Binary, Unary) for node in expr.walk())


def _unknown_atom(parts: tuple[Expr, ...], loop_of: Mapping[str, int], table: Table) -> UnknownAtom:
    return UnknownAtom(frozenset(loop_of[name] for part in parts for name in free_vars(part) & loop_of.keys()))


def _atom(atom: Expr, loop_of: Mapping[str, int], table: Table) -> Atom | None:
    """A loop, or a quotient, remainder or clamp of an index; None for what is none of them."""
    if isinstance(atom, Var):
        return LoopAtom(loop_of[atom.name])
    if not isinstance(atom, Binary) or depends_on_data(atom):
        return None
    if atom.op in (BinOp.MIN, BinOp.MAX):
        moving = [side for side in (atom.a, atom.b) if free_vars(side) & loop_of.keys()]
        return ClampAtom(index_of(moving[0], loop_of, table)) if len(moving) == 1 else None
    if free_vars(atom.b) & loop_of.keys():
        return None
    if atom.op in (BinOp.FLOORDIV, BinOp.CEILDIV):
        return QuotientAtom(index_of(atom.a, loop_of, table), table.slot(atom.b))
    if atom.op is BinOp.MOD:
        return RemainderAtom(index_of(atom.a, loop_of, table), table.slot(atom.b))
    return None
