"""Where a term of a reduction belongs, where data says so: the one iteration of a loop that has a term.

Of `for v in 256: N[v] += 1 if X[i] == v else 0`, only the iteration `v = X[i]` adds anything. The equation is solved
for the loop's variable here, once and exactly: in the arithmetic of the machine, whose sums are modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import INDEX, holds_range
from metasched.ir.integers.affine import NotAffine, as_int, const, free_vars, linear, simplify
from metasched.ir.integers.conjunctions import conjunction, conjuncts
from metasched.ir.integers.data import depends_on_data
from metasched.ir.integers.ranges import bounds
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Reducer, Select, Var
from metasched.support.data_classes import dataclass

_RING = (BinOp.ADD, BinOp.SUB, BinOp.MUL)


@dataclass(frozen=True)
class TermPlace:
    """The iteration `index` of a loop is the only one with a term, and none is where it is not one of the loop's.

    `conds` hold for every term, and `index` may read only what is there where they do. `value` is the term, or what
    leaves the reduction unchanged where further conditions do not hold.
    """

    index: Expr
    conds: tuple[Expr, ...]
    value: Expr


def place_of(value: Expr, reducer: Reducer | None, var: str, ranges: Mapping[str, Expr]) -> TermPlace | None:
    """Where the loop over `var` has a term `value` of a reduction; None where no condition of it says that.

    `ranges` has the extents of `var` and of other index variables. The condition is an equation of integers, one side
    of which is `var`, plus or minus what does not depend on it, and the other side of which does not depend on `var`.
    """
    if reducer is None or reducer.is_arg:
        return None
    nothing = reducer.identity(value.dtype)
    conds: list[Expr] = []
    term = value
    while isinstance(term, Select) and term.otherwise == nothing:
        conds += conjuncts(term.cond)
        term = term.then
    for n, cond in enumerate(conds):
        index = _solve_equation(cond, var, ranges)
        if index is not None:
            rest = conds[n + 1 :]
            return TermPlace(index, tuple(conds[:n]), Select(conjunction(rest), term, nothing) if rest else term)
        if var in free_vars(cond):
            return None  # What the equation reads may only be there where this holds.
    return None


def _solve_equation(cond: Expr, var: str, ranges: Mapping[str, Expr]) -> Expr | None:
    """The value of `var` that an equation leaves; None for anything else."""
    if not isinstance(cond, Binary) or cond.op is not BinOp.EQ or not cond.a.dtype.is_integer:
        return None
    for known, side in ((cond.a, cond.b), (cond.b, cond.a)):
        if var in free_vars(known) or var not in free_vars(side):
            continue
        form = _strip_casts(side, ranges)
        if form is None:
            return None
        try:
            rest, terms = linear(form, frozenset({var}))
        except NotAffine:
            return None
        step = as_int(terms[Var(var)]) if list(terms) == [Var(var)] else None
        if step not in (1, -1) or var in free_vars(rest):
            return None
        index = known if known.dtype is INDEX else Cast(known, INDEX)
        return simplify(Binary(BinOp.SUB, index, rest) if step == 1 else Binary(BinOp.SUB, rest, index))
    return None


def _strip_casts(e: Expr, ranges: Mapping[str, Expr]) -> Expr | None:
    """Arithmetic of index variables in i64, where it gives the same number in the type that it is written in."""
    if isinstance(e, Const) and e.dtype.is_integer:
        return const(int(e.value)) if holds_range(INDEX, e.value, e.value) else None
    if isinstance(e, Cast) and e.dtype.is_integer and e.value.dtype.is_integer:
        inner = _strip_casts(e.value, ranges)
        return inner if inner is not None and _fits(inner, e, ranges) else None
    if isinstance(e, Binary) and e.op in _RING and e.dtype.is_integer:
        a, b = _strip_casts(e.a, ranges), _strip_casts(e.b, ranges)
        if a is None or b is None:
            return None
        form = Binary(e.op, a, b)
        return form if _fits(form, e, ranges) else None
    return e if e.dtype is INDEX and not depends_on_data(e) else None


def _fits(form: Expr, written: Expr, ranges: Mapping[str, Expr]) -> bool:
    """Whether a type holds all values of a form; index arithmetic is checked to, elsewhere."""
    if written.dtype is INDEX:
        return True
    try:
        interval = bounds(form, ranges)
    except (NotAffine, KeyError):
        return False
    low, high = as_int(interval.lo), as_int(interval.hi)
    return (
        low is not None and high is not None and all(holds_range(dtype, low, high) for dtype in (written.dtype, INDEX))
    )
