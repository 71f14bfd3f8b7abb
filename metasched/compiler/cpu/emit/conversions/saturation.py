"""What a conversion to short integers does by itself: it keeps within the range of its type without being told."""

from __future__ import annotations

from metasched.dtypes import DType, integer_range
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Const, Expr


def without_clamps(e: Cast) -> Expr:
    """What is converted, without bounds that are no narrower than those of an integer type.

    A float beyond the range of its type becomes the nearest end, and NaN, which passes through bounds, becomes 0.
    """
    value = e.value
    if not e.type.is_integer or not value.dtype.is_float:
        return value
    lowest, last = integer_range(e.type)
    while isinstance(value, Binary) and value.op in (BinOp.MIN, BinOp.MAX):
        bound, other = (value.b, value.a) if isinstance(value.b, Const) else (value.a, value.b)
        if not isinstance(bound, Const):
            break
        if bound.value < last if value.op is BinOp.MIN else bound.value > lowest:
            break
        value = other
    return value


def rounded_argument(value: Expr, to: DType) -> Expr | None:
    """x of a single-precision rint(x) that becomes a short integer; None of anything else."""
    short = to.is_integer and to.bits < DType.I32.bits
    if short and value.dtype is DType.F32 and isinstance(value, Call) and value.func == "rint":
        return value.args[0]
    return None
