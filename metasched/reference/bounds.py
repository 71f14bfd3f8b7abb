"""The bound of an expression's rounding error, as an expression that the reference computes beside it.

`B(e)` is how much `e` may be off in units of the relative rounding error of what it is made of. For floats:

* constants and inputs: `|x|` (0 when not finite); integers made floats: `|x|`, and what they are off themselves;
* `a + b`, `a - b`: `B(a) + B(b)`; `a * b`: `B(a) * B(b)`; `a / b`: `B(a)/|b| + |a| B(b)/b^2`;
* `max`, `min`: the larger bound;
* `f(x)`: `|f(x)| + |f'(x)| B(x)`, a term for each argument, where the function's file bounds `|f'|`;
* `a if c else b`: that of the side taken; and where floats are compared in `c`, how far they are off times how steep
  the choice is there, `|a - b|` over the distance of the two. Where both sides meet, as in `x if x > 0 else 0`, that is
  what the floats are off; at a jump, as in `1 if x > y else 0`, it is large where rounding may change the side.

What jumps by one, such as `rint(x)`, is as steep as one over the distance to the nearest jump: where that is more than
rounding can cross, the bound times the relative error is less than one. What is on a jump to the last bit of f64 may be
beside it, unless it is exact, such as a sum of bytes (`metasched.reference.rounding`).

Where something on the way is beyond the largest number of the type that is computed in, or may be in some order of a
sum, the bound of what is made of it is infinite; infinities themselves, such as those that mask terms, are exact. Where
it may be less than the smallest normal one, it is off by that.

Integers and truth values are exact, and their bound 0, unless floats are rounded to them or compared (`u8(x)`,
`x < y`): then it is that of a jump. So it is at least one over the relative error where rounding may have changed the
value; where it is too small for that, it is 0 once it is stored. Arguments that are compared as they are have not been
rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Set
from dataclasses import field
from types import MappingProxyType

from metasched.dtypes import DType, integer_range
from metasched.functions.declaration import double, number, over_distance, size
from metasched.functions.registry import functions
from metasched.ir.nodes import Binary, BinOp, Block, Call, Cast, Const, Expr, Func, Load, Select, Unary, Var
from metasched.reference.rounding import NO, WHOLE_CALLS, Rounding, any_holds
from metasched.support.data_classes import dataclass

ZERO = Const(0.0, DType.F64)
# How steep a jump is for a float that exact arithmetic has on it and rounding may have put beside.
_STEEPEST_JUMP = 1e100


def bound_name(buffer: str) -> str:
    return f"{buffer}.bound"


def underflow_bound(kind: DType) -> float:
    """The bound of what is off by the smallest normal number of a type."""
    return kind.smallest_normal / kind.unit_roundoff


def rounded_buffers(func: Func) -> frozenset[str]:
    """The buffers of integers and truth values that depend on floats: those that floats are rounded to or compared in,
    and what is computed of them. Positions that an arg-reduction finds are none."""
    computed = {b.name for b in (*func.temps, *func.outputs) if b.dtype.is_float}
    found: set[str] = set()
    for block in (node for node in func.body.walk() if isinstance(node, Block)):
        value = block.store.value
        if not value.dtype.is_float and _depends_on_rounding(value, found, computed):
            found.add(block.store.buffer)
    return frozenset(found)


def _depends_on_rounding(e: Expr, rounded: Set[str], computed: Container[str]) -> bool:
    """Whether floats that may be rounded are in an expression, or integers that depend on them."""
    if isinstance(e, Binary) and e.op.is_comparison and all(_is_given(x, rounded, computed) for x in (e.a, e.b)):
        return False
    if e.dtype.is_float or (isinstance(e, Load) and e.buffer in rounded):
        return True
    return any(isinstance(child, Expr) and _depends_on_rounding(child, rounded, computed) for child in e.children())


def _is_given(e: Expr, rounded: Set[str], computed: Container[str]) -> bool:
    """Whether a float is one that the program computes nothing of: its argument, at a place that is exact."""
    if isinstance(e, Cast):
        return e.value.dtype.is_float and _is_given(e.value, rounded, computed)
    if isinstance(e, Load):
        is_argument = e.dtype.is_float and e.buffer not in computed
        return is_argument and not any(_depends_on_rounding(index, rounded, computed) for index in e.indices)
    return isinstance(e, Const) and e.dtype.is_float


@dataclass(frozen=True)
class Bounds:
    """Bounds of expressions of an f64 program in which the buffers `rounded` of integers have bounds of their own, and
    `rounding` is known of its floats.

    `types` has the type of each float buffer that the program computes, `sums` which of them are sums or products of
    terms, and `type` is what the expressions are computed in. An integer whose bound is less than `certain` is right.
    """

    rounded: frozenset[str] = frozenset()
    rounding: Rounding = Rounding()
    types: Mapping[str, DType] = field(default_factory=dict)
    sums: frozenset[str] = frozenset()
    type: DType = DType.F64
    certain: float = 0.0

    def of_stored(self, e: Expr) -> Expr:
        """`B(e)` of what is stored: that of an integer is 0 where rounding has not changed it."""
        bound = self(e)
        if e.dtype.is_float or bound == ZERO or not self.certain:
            return bound
        return Select(bound < number(self.certain), ZERO, bound)

    def __call__(self, e: Expr) -> Expr:
        """`B(e)`, in f64."""
        return self._float_bound(e) if e.dtype.is_float else self._whole_bound(e)

    def _float_bound(self, e: Expr) -> Expr:
        if isinstance(e, Const):
            return number(abs(float(e.value)) if math.isfinite(e.value) else 0.0)
        if isinstance(e, Var):
            return Select(size(e) < number(math.inf), size(e), ZERO)
        if isinstance(e, Load):
            return _add(self._element_bound(e), self._place_bound(e))
        if isinstance(e, Unary):
            return self(e.a)
        if isinstance(e, Cast):
            return self(e.value) if e.value.dtype.is_float else _add(size(e), self(e.value))
        if isinstance(e, Select):
            return self._choice_bound(e)
        if isinstance(e, Binary):
            return _FLOAT_OPERATIONS[e.op](self, e.a, e.b)
        assert isinstance(e, Call)
        if e.func in WHOLE_CALLS and self.rounding.is_whole(e.args[0]):
            return self(e.args[0])
        out = size(e)
        for slope, argument in zip(functions()[e.func].slopes(*e.args), e.args, strict=True):
            out = out + (self._jump_slope(slope, argument) if e.func in WHOLE_CALLS else slope) * self.factor_bound(
                argument
            )
        return out

    def _element_bound(self, e: Load) -> Expr:
        own = Load(bound_name(e.buffer), e.indices, DType.F64)
        kind = self.types.get(e.buffer, DType.F64)
        if kind is DType.F64:
            return own
        is_less = Binary(BinOp.AND, number(0.0) < size(e), size(e) < number(kind.smallest_normal))
        floored: Expr = Select(is_less, own + number(underflow_bound(kind)), own)
        return _bound_or_infinity(own if e.buffer in self.sums else size(e), kind, floored)

    def term_bound(self, e: Expr) -> Expr:
        """`B(e)` of what something is made of: infinite where it is beyond the largest number."""
        return self(e) if _is_uncomputed(e) else _bound_or_infinity(size(e), self.type, self(e))

    def factor_bound(self, e: Expr) -> Expr:
        """`B(e)` of what something larger may be made of: it has to count that `e` loses digits below the normal
        numbers.
        """
        if _is_uncomputed(e) or self.type is DType.F64:
            return self.term_bound(e)
        return self.term_bound(e) + number(underflow_bound(self.type))

    def _whole_bound(self, e: Expr) -> Expr:
        """`B(e)` of integers and truth values: 0 where nothing in them is rounded."""
        if not _depends_on_rounding(e, self.rounded, self.types):
            return ZERO
        if isinstance(e, Load):
            own = Load(bound_name(e.buffer), e.indices, DType.F64) if e.buffer in self.rounded else ZERO
            return _add(own, self._place_bound(e))
        if isinstance(e, Cast) and e.value.dtype.is_float:
            if e.dtype.is_bool:
                return self(e.value) * self._jump_slope(over_distance(e.value), e.value)
            if self.rounding.is_whole(e.value):
                return self(e.value)
            return self(e.value) * self._jump_slope(over_distance(_distance_to_whole(e.value)), e.value)
        if isinstance(e, Select):
            return self._choice_bound(e)
        if isinstance(e, Binary) and e.op.is_comparison and e.a.dtype.is_float:
            return (self(e.a) + self(e.b)) * self._jump_slope(over_distance(e.a - e.b), e.a, e.b)
        if isinstance(e, Binary) and e.op is BinOp.MUL:
            a, b = self(e.a), self(e.b)
            return _add(_multiply(_magnitude(e.a), b), _multiply(_magnitude(e.b), a))
        out: Expr = ZERO
        for child in e.children():
            if isinstance(child, Expr):
                out = _add(out, self(child))
        if isinstance(e, Binary) and e.op is BinOp.MOD:
            return _multiply(out, _magnitude(e.b))
        # What wraps goes from one end of its type to the other.
        wraps = isinstance(e, Cast) and e.dtype.is_integer and e.dtype.bits < DType.I64.bits
        return _multiply(out, number(2.0**e.dtype.bits)) if wraps and not _cast_keeps_value(e) else out

    def _jump_slope(self, steep: Expr, *values: Expr) -> Expr:
        """How steep a jump is, of which it is known how steep it is apart from values that are on it."""
        beside = any_holds(map(self.rounding.is_beside, values))
        if beside == NO:
            return steep
        return Select(Binary(BinOp.AND, beside, Binary(BinOp.EQ, steep, ZERO)), number(_STEEPEST_JUMP), steep)

    def _place_bound(self, e: Load) -> Expr:
        """The bound of an element that may be another one, as its index may be off: as much as it is, and one."""
        out: Expr = ZERO
        for index in e.indices:
            off = self(index)
            out = _add(out, _multiply(off, _magnitude(e) + number(1.0)))
        return out

    def _choice_bound(self, e: Select) -> Expr:
        chosen: Expr = Select(e.cond, self(e.then), self(e.otherwise))
        return _add(chosen, _multiply(self(e.cond), self._sides_distance(e)))

    def _sides_distance(self, e: Select) -> Expr:
        """How far the sides of a choice are from one another, or what is chosen from 0 where one may not be read."""
        if e.dtype.is_bool:
            return number(1.0)
        # No comparison of floats says that an index is in bounds.
        only_floats = isinstance(e.cond, Binary) and e.cond.op.is_comparison and e.cond.a.dtype.is_float
        if only_floats or not any(isinstance(node, Load) for side in (e.then, e.otherwise) for node in side.walk()):
            return size(_cast_to_f64(e.then) - _cast_to_f64(e.otherwise))
        return _magnitude(e) + number(1.0)


def _cast_keeps_value(e: Expr) -> bool:
    """Whether an integer's cast is to a type that has all numbers of its own."""
    assert isinstance(e, Cast)
    if e.value.dtype.is_bool:
        return True
    (low, high), (least, most) = integer_range(e.value.dtype), integer_range(e.dtype)
    return least <= low and high <= most


def _magnitude(e: Expr) -> Expr:
    """The size of a number, in f64."""
    if e.dtype.is_bool:
        return number(1.0)
    return size(_cast_to_f64(e))


def _cast_to_f64(e: Expr) -> Expr:
    return e if e.dtype is DType.F64 else Cast(e, DType.F64)


def _is_uncomputed(e: Expr) -> bool:
    """Whether no float is computed in an expression itself: elements are looked after where they are stored."""
    return isinstance(e, Const | Var | Load) or (isinstance(e, Cast) and not e.value.dtype.is_float)


def _bound_or_infinity(reached: Expr, kind: DType, bound: Expr) -> Expr:
    """A bound that is infinite where what is reached is a number beyond the largest of a type: infinities are the same
    in each."""
    if kind is DType.F64:
        return bound
    beyond = Binary(BinOp.AND, Binary(BinOp.GT, reached, number(kind.largest)), reached < number(math.inf))
    return Select(beyond, number(math.inf), bound)


def _add(a: Expr, b: Expr) -> Expr:
    return b if a == ZERO else a if b == ZERO else a + b


def _multiply(a: Expr, b: Expr) -> Expr:
    return ZERO if ZERO in (a, b) else a * b


def _distance_to_whole(x: Expr) -> Expr:
    """How far a float is from the next at which what it is truncated to changes: around 0 that is 1 and -1."""
    nearest = double("rint", x)
    return Select(Binary(BinOp.EQ, nearest, ZERO), number(1.0) - size(x), x - nearest)


def _sum_bound(bounds: Bounds, a: Expr, b: Expr) -> Expr:
    return bounds.term_bound(a) + bounds.term_bound(b)


def _product_bound(bounds: Bounds, a: Expr, b: Expr) -> Expr:
    return bounds.factor_bound(a) * bounds.factor_bound(b)


def _extremum_bound(bounds: Bounds, a: Expr, b: Expr) -> Expr:
    return Binary(BinOp.MAX, bounds(a), bounds(b))


def _quotient_bound(bounds: Bounds, a: Expr, b: Expr) -> Expr:
    return bounds.factor_bound(a) / size(b) + size(a) * bounds.factor_bound(b) / (b * b)


_FLOAT_OPERATIONS: Mapping[BinOp, Callable[[Bounds, Expr, Expr], Expr]] = MappingProxyType(
    {
        BinOp.ADD: _sum_bound,
        BinOp.SUB: _sum_bound,
        BinOp.MUL: _product_bound,
        BinOp.DIV: _quotient_bound,
        BinOp.MIN: _extremum_bound,
        BinOp.MAX: _extremum_bound,
    }
)
