"""Where a bound in a condition begins or ceases to hold along a variable."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.ir.integers.affine import ZERO, NotAffine, as_int, coefficient, simplify, substitute
from metasched.ir.integers.ranges import bounds
from metasched.ir.nodes import Binary, BinOp, Expr
from metasched.support.data_classes import dataclass

# Comparison -> whether to swap its sides, and whether they may be equal.
BOUNDS = {
    BinOp.LT: (False, False),
    BinOp.LE: (False, True),
    BinOp.GT: (True, False),
    BinOp.GE: (True, True),
}


@dataclass(frozen=True)
class Change:
    """The value of a variable from which a condition always holds (`begins`), or no longer does."""

    at: int
    begins: bool


def change_along(condition: Binary, var: str, inner: Mapping[str, Expr]) -> Change | None:
    """The first value of `var` at which a bound holds for all values of the inner variables, or no longer does.

    `inner` has their extents. None for a bound that does not depend on `var`, or on more than that.
    """
    swapped, equal = BOUNDS[condition.op]
    a, b = (condition.b, condition.a) if swapped else (condition.a, condition.b)
    try:
        difference = bounds(simplify(a - b), dict(inner)).hi
        step = as_int(coefficient(difference, var))
        rest = as_int(substitute(difference, {var: ZERO}))
    except NotAffine:
        return None
    if step is None or rest is None or step == 0:
        return None
    # step * var + rest < limit
    limit = 1 if equal else 0
    if step > 0:
        return Change(-((rest - limit) // step), begins=False)
    return Change((rest - limit) // -step + 1, begins=True)
