"""The form that bindings of iteration variables have."""

from __future__ import annotations

from metasched.ir.integers.affine import NotAffine, free_vars, linear
from metasched.ir.nodes import Binary, BinOp, Expr, Var

_DIVISIONS = (BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV)


def quasi_affine(e: Expr, loop_vars: frozenset[str]) -> bool:
    """A sum of loops, and of quotients and remainders of such sums, with coefficients free of loops."""
    try:
        _, terms = linear(e, loop_vars)
    except NotAffine:
        return False
    for digit, coefficient in terms.items():
        if free_vars(coefficient) & loop_vars:
            return False
        if isinstance(digit, Var):
            continue
        if not (isinstance(digit, Binary) and digit.op in _DIVISIONS):
            return False
        if free_vars(digit.b) & loop_vars or not quasi_affine(digit.a, loop_vars):
            return False
    return True
