"""Values of one element type as values of another."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType, integer_range
from metasched.ir.nodes import Cast, Const, Expr, Select


def cast_to(e: Expr, dtype: DType) -> Expr:
    return e if e.dtype is dtype else Cast(e, dtype)


def round_to_storage(e: Expr, dtype: DType) -> Expr:
    """`e` rounded to a type of storage; a value read from a buffer of it is unchanged."""
    if not dtype.is_storage:
        return e
    if isinstance(e, Cast) and e.value.dtype is dtype:
        return e.value
    if isinstance(e, Select):
        return Select(e.cond, round_to_storage(e.then, dtype), round_to_storage(e.otherwise, dtype))
    if isinstance(e, Const):
        return Const(nearest_value(e.value, dtype), dtype)
    return Cast(cast_to(e, dtype.compute), dtype)


def nearest_value(value: float, dtype: DType) -> float:
    """The value of a type of storage nearest to a number: ties to even, infinity beyond the largest; integers wrap."""
    if dtype.is_integer:
        lowest, highest = integer_range(dtype)
        return (int(value) - lowest) % (highest - lowest + 1) + lowest
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(np.float32(value)))
