"""What values an integer that data says may take, whatever the data is: by its type, and by minima and maxima."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from metasched.dtypes import DType, holds_range, integer_range
from metasched.ir.integers.bit_ranges import range_of_bits
from metasched.ir.nodes import Binary, BinOp, Cast, Const, Expr, Select

Interval = tuple[int, int]  # inclusive

_RING = (BinOp.ADD, BinOp.SUB, BinOp.MUL)


@lru_cache(maxsize=1 << 16)
def data_range(e: Expr) -> Interval:
    """Inclusive bounds of an integer or bool expression; arithmetic that may wrap takes every value of its type."""
    whole = (0, 1) if e.dtype.is_bool else integer_range(e.dtype)
    if isinstance(e, Const):
        return int(e.value), int(e.value)
    if isinstance(e, Cast) and not e.value.dtype.is_float:
        found = data_range(e.value)
        return found if holds_range(e.dtype, *found) else whole
    if isinstance(e, Select):
        (a, b), (c, d) = data_range(e.then), data_range(e.otherwise)
        return min(a, c), max(b, d)
    if isinstance(e, Binary) and e.a.dtype.is_integer:
        return _binary_range(e, whole, e.dtype)
    return whole


def _binary_range(e: Binary, whole: Interval, dtype: DType) -> Interval:
    if e.op.is_of_bits or e.op.is_shift:
        found = range_of_bits(e.op, data_range(e.a), data_range(e.b))
        return found if holds_range(dtype, *found) else whole
    if e.op not in (*_RING, BinOp.MIN, BinOp.MAX):
        return whole
    (a, b), (c, d) = data_range(e.a), data_range(e.b)
    if e.op is BinOp.MIN:
        return min(a, c), min(b, d)
    if e.op is BinOp.MAX:
        return max(a, c), max(b, d)
    if e.op is BinOp.MUL:
        corners = [x * y for x, y in product((a, b), (c, d))]
        found = min(corners), max(corners)
    else:
        found = (a + c, b + d) if e.op is BinOp.ADD else (a - d, b - c)
    return found if holds_range(dtype, *found) else whole
