"""Which floats of a program are rounded in a shorter type, as far as their expressions tell.

Where exact arithmetic has a float on a jump, such as 3 in `u8(x)`, rounding may have put it beside: in f32,
`a * m + a * (1 - m)` may be less than `a`. A sum of whole numbers is there exactly, and so is what was copied, or
is the bound that it was clamped to. So is the result of one operation on such numbers: a number on a jump is short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from metasched.dtypes import DType
from metasched.ir.nodes import Binary, BinOp, Block, Call, Cast, Const, Expr, Func, Load, Reducer, Select, Unary, UnOp
from metasched.support.data_classes import dataclass

WHOLE_CALLS = frozenset({"floor", "ceil", "rint"})
_WHOLE_OPERATIONS = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.MIN, BinOp.MAX})
_EXTREMA = {BinOp.MIN: BinOp.LT, BinOp.MAX: BinOp.GT}
YES, NO = Const(True, DType.BOOL), Const(False, DType.BOOL)


@dataclass(frozen=True)
class Rounding:
    """What is known of float buffers: those of `whole` numbers, those that are `rounded` everywhere, and those that
    may everywhere be `beside` a jump on which exact arithmetic has them."""

    whole: frozenset[str] = frozenset()
    rounded: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()

    def is_rounded(self, e: Expr) -> Expr:
        """Whether a float may be another number than exact arithmetic gives."""
        if isinstance(e, Load):
            return _truth_constant(e.buffer in self.rounded)
        if self.is_whole(e) or not isinstance(e, Unary | Cast | Select | Binary | Call):
            return NO
        if isinstance(e, Binary) and e.op is BinOp.MUL and (others := _unscaled_sides(e)):
            return self.is_rounded(others[0])
        return _combine_parts(e, self.is_rounded, YES)

    def is_beside(self, e: Expr) -> Expr:
        """Whether a float that exact arithmetic has on a jump may be beside it."""
        if isinstance(e, Load):
            return _truth_constant(e.buffer in self.beside)
        if isinstance(e, Call) or (isinstance(e, Binary) and e.op not in _EXTREMA):
            operands = e.args if isinstance(e, Call) else (e.a, e.b)
            return NO if self.is_whole(e) else any_holds(map(self.is_rounded, operands))
        return _combine_parts(e, self.is_beside, NO)

    def is_whole(self, e: Expr) -> bool:
        """Whether a float is a whole number whatever its parts are."""
        if isinstance(e, Const):
            return float(e.value).is_integer()
        if isinstance(e, Cast):
            return e.value.dtype.is_integer or (e.value.dtype.is_float and self.is_whole(e.value))
        if isinstance(e, Call):
            return e.func in WHOLE_CALLS
        if isinstance(e, Load):
            return e.buffer in self.whole
        if isinstance(e, Select):
            return self.is_whole(e.then) and self.is_whole(e.otherwise)
        if isinstance(e, Unary):
            return e.op is UnOp.NEG and self.is_whole(e.a)
        return isinstance(e, Binary) and e.op in _WHOLE_OPERATIONS and self.is_whole(e.a) and self.is_whole(e.b)


def rounding_in(func: Func) -> Rounding:
    """What is known of the buffers that a program computes, stage by stage."""
    found = Rounding()
    for block in (node for node in func.body.walk() if isinstance(node, Block)):
        name, value = block.store.buffer, block.store.value
        if value.dtype.is_float:
            sums = block.reducer is not None and block.reducer.of_values not in (Reducer.MIN, Reducer.MAX)
            whole = found.is_whole(value)
            found = Rounding(
                found.whole | ({name} if whole else set()),
                found.rounded | ({name} if not whole and (sums or found.is_rounded(value) == YES) else set()),
                found.beside | ({name} if not whole and (sums or found.is_beside(value) == YES) else set()),
            )
    return found


def _unscaled_sides(e: Binary) -> tuple[Expr, ...]:
    """The other side of a product by a power of two."""
    sides = ((e.a, e.b), (e.b, e.a))
    return tuple(other for side, other in sides if isinstance(side, Const) and _is_power_of_two(float(side.value)))


def _is_power_of_two(value: float) -> bool:
    return math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


def _combine_parts(e: Expr, known: Callable[[Expr], Expr], others: Expr) -> Expr:
    """Combine what holds for the parts of an expression that is one of them; `others` for all other expressions."""
    if isinstance(e, Unary):
        return known(e.a)
    if isinstance(e, Cast):
        return known(e.value) if e.value.dtype.is_float else NO
    if isinstance(e, Select):
        return _select_unless_equal(e.cond, known(e.then), known(e.otherwise))
    if isinstance(e, Binary) and e.op in _EXTREMA:
        return _select_unless_equal(Binary(_EXTREMA[e.op], e.a, e.b), known(e.a), known(e.b))
    return others


def _select_unless_equal(cond: Expr, then: Expr, otherwise: Expr) -> Expr:
    return then if then == otherwise else Select(cond, then, otherwise)


def any_holds(found: Iterable[Expr]) -> Expr:
    """Whether one of several things holds."""
    out: Expr = NO
    for one in found:
        if YES in (one, out):
            return YES
        out = one if out == NO else out if one == NO else Binary(BinOp.OR, out, one)
    return out


def _truth_constant(value: bool) -> Expr:
    return YES if value else NO
