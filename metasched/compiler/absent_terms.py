"""Terms of a reduction that are not there: where what a condition gives instead changes nothing, nothing is done.

`C[i] += A[i, k] if k <= i else 0` is `C[i] += A[i, k]` under the condition `k <= i`, to the bit: a sum that starts from
0.0 is never -0.0, which is the only float that adding 0.0 changes. Lowering makes conditions of a statement of those of
its terms, and the cost model counts them as that.
"""

from __future__ import annotations

from collections.abc import Callable

from metasched.ir.integers.conjunctions import conjunction, conjuncts
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import Expr, Reducer, Select


def split_terms(value: Expr, reducer: Reducer | None, stays: Callable[[Expr], bool]) -> tuple[tuple[Expr, ...], Expr]:
    """The conditions on indices under which a reduction has a term, and that term.

    Those that `stays` accepts, and those on data, are left inside: a choice between two values costs less than a branch
    that differs between lanes or cannot be foreseen.
    """
    if reducer is None or reducer.is_arg or not isinstance(value, Select):
        return (), value
    nothing = reducer.identity(value.dtype)
    if value.otherwise != nothing:
        return (), value
    conds = conjuncts(value.cond)
    inside = [cond for cond in conds if depends_on_data(cond) or stays(cond)]
    outer, term = split_terms(value.then, reducer, stays)
    if inside:
        term = Select(conjunction(inside), term, nothing)
    return (*(cond for cond in conds if cond not in inside), *outer), term
