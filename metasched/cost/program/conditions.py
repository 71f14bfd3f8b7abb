"""Conditions on indices, in a form that can be evaluated over a population.

A condition is made of comparisons of indices with zero, joined by `and`, `or` and `not`. One that depends on data is
`DataCondition`. `selections` finds the choices of a value that are made by an index, such as padding
(`X[i - 1] if i >= 1 else 0`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metasched.cost.program.index import Index, Table, index_of
from metasched.dtypes import INDEX
from metasched.ir.integers.affine import free_vars
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Load, Reducer, Select, Unary, UnOp
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class IsNegative:
    """`value < 0`."""

    value: Index


@dataclass(frozen=True)
class IsZero:
    """`value == 0`."""

    value: Index


@dataclass(frozen=True)
class DataCondition:
    """A condition on data, which depends on these loops at least."""

    loops: frozenset[int]


@dataclass(frozen=True)
class Negation:
    """A condition that holds where `of` does not."""

    of: Condition


@dataclass(frozen=True)
class Conjunction:
    """A condition that holds where all of these do; always without any."""

    of: tuple[Condition, ...]


Condition = IsNegative | IsZero | DataCondition | Negation | Conjunction


def loops_in(condition: Condition) -> frozenset[int]:
    """The loops that a condition depends on."""
    if isinstance(condition, DataCondition):
        return condition.loops
    if isinstance(condition, Negation):
        return loops_in(condition.of)
    if isinstance(condition, Conjunction):
        return frozenset[int]().union(*(loops_in(each) for each in condition.of))
    return condition.value.loops


def condition_of(expr: Expr, loop_of: Mapping[str, int], table: Table) -> Condition:
    """A boolean expression over the loops named in `loop_of` (name to depth); its sizes go into `table`."""
    if isinstance(expr, Const):
        return Conjunction(()) if expr.value else Negation(Conjunction(()))
    if isinstance(expr, Unary) and expr.op is UnOp.NOT:
        return Negation(condition_of(expr.a, loop_of, table))
    if isinstance(expr, Binary) and expr.op is BinOp.AND:
        return Conjunction((condition_of(expr.a, loop_of, table), condition_of(expr.b, loop_of, table)))
    if isinstance(expr, Binary) and expr.op is BinOp.OR:
        sides = tuple(Negation(condition_of(side, loop_of, table)) for side in (expr.a, expr.b))
        return Negation(Conjunction(sides))
    if _compares_indices(expr):
        assert isinstance(expr, Binary)
        return _comparison(expr, loop_of, table)
    return DataCondition(frozenset(loop_of[name] for name in free_vars(expr) & loop_of.keys()))


def joined_conditions(expr: Expr, loop_of: Mapping[str, int], table: Table) -> Iterator[Condition]:
    """The conditions that an expression joins by `and`; none where it is constant."""
    if isinstance(expr, Binary) and expr.op is BinOp.AND:
        yield from joined_conditions(expr.a, loop_of, table)
        yield from joined_conditions(expr.b, loop_of, table)
    elif not isinstance(expr, Const):
        yield condition_of(expr, loop_of, table)


def _compares_indices(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op.is_comparison and expr.a.dtype is INDEX and not depends_on_data(expr)


def _comparison(expr: Binary, loop_of: Mapping[str, int], table: Table) -> Condition:
    a, b = expr.a, expr.b
    if expr.op in (BinOp.EQ, BinOp.NE):
        equal = IsZero(index_of(a - b, loop_of, table))
        return equal if expr.op is BinOp.EQ else Negation(equal)
    difference = {
        BinOp.LT: lambda: a - b,
        BinOp.LE: lambda: a - b - 1,
        BinOp.GT: lambda: b - a,
        BinOp.GE: lambda: b - a - 1,
    }[expr.op]()
    return IsNegative(index_of(difference, loop_of, table))


@dataclass(frozen=True)
class Selection:
    """A choice by an index between two values, and its condition.

    `nothing_else`: where the condition does not hold, the value is zero and a sum of products takes nothing from it.
    """

    condition: Expr
    then: Expr
    otherwise: Expr
    nothing_else: bool


def selections(value: Expr, reducer: Reducer | None, ranges: Mapping[str, Expr]) -> tuple[Selection, ...]:
    """The selections by an index in a value, outermost first.

    `ranges` are the extents of the iteration variables; a condition that they decide selects nothing.
    """
    return tuple(_selections(value, ranges, reducer is Reducer.SUM))


def is_by_index(select: Select) -> bool:
    """Whether a selection depends on indices only."""
    return not any(isinstance(node, Load) for node in select.cond.walk())


def sides_taken(select: Select, ranges: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """The sides that a selection by an index may take."""
    holds = prove(select.cond, ranges)
    if holds is None:
        return (select.then, select.otherwise)
    return (select.then if holds else select.otherwise,)


def _selections(value: Expr, ranges: Mapping[str, Expr], is_factor: bool) -> Iterator[Selection]:
    """`is_factor`: what is summed is zero where this value is."""
    if isinstance(value, Load):
        return
    if isinstance(value, Select) and is_by_index(value):
        taken = sides_taken(value, ranges)
        if len(taken) == 2:
            zero = isinstance(value.otherwise, Const) and value.otherwise.value == 0
            yield Selection(value.cond, value.then, value.otherwise, is_factor and zero)
        for side in taken:
            yield from _selections(side, ranges, is_factor)
        return
    passes = isinstance(value, Cast) or (isinstance(value, Binary) and value.op is BinOp.MUL)
    for child in value.children():
        if isinstance(child, Expr):
            yield from _selections(child, ranges, is_factor and passes)
