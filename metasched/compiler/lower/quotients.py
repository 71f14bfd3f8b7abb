"""Quotients and remainders that the loops' ranges decide: `v % 14` is `v` in a loop of 14 iterations.

Fused loops of which some have one iteration leave such divisions, which would be made again for every address.
"""

from __future__ import annotations

from collections.abc import Mapping

from metasched.ir.integers.affine import ZERO, NotAffine, as_int, simplify
from metasched.ir.integers.ranges import bounds
from metasched.ir.nodes import Binary, BinOp, Expr


def drop_zero_quotients(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    """`e`, index arithmetic in normal form, without the divisions whose quotient is 0 all over the loops' ranges."""
    if not any(isinstance(x, Binary) and x.op in _DIVISIONS for x in e.walk()):
        return e
    return simplify(_drop_quotients(e, ranges))


_DIVISIONS = (BinOp.MOD, BinOp.FLOORDIV)


def _drop_quotients(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    e = e.map(lambda child: _drop_quotients(child, ranges))
    if isinstance(e, Binary) and e.op in _DIVISIONS and _is_below(e.a, as_int(e.b), ranges):
        return e.a if e.op is BinOp.MOD else ZERO
    return e


def _is_below(e: Expr, divisor: int | None, ranges: Mapping[str, Expr]) -> bool:
    """Whether `e` is at least 0 and below a divisor that is known."""
    if divisor is None:
        return False
    try:
        found = bounds(e, ranges)
    except NotAffine:
        return False
    low, high = as_int(found.lo), as_int(found.hi)
    return low is not None and high is not None and low >= 0 and high < divisor
