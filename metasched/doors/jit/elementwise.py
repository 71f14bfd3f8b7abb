"""NumPy's ufuncs as expressions of the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from metasched.doors.exact_division import EXACT_DIVISIONS, NOTHING_LEFT, divide_exactly
from metasched.doors.jit.bit_counts import count_bits
from metasched.doors.jit.powers import power
from metasched.doors.jit.promotion import limit_of, resolve_types, weak_type
from metasched.doors.jit.scipy_ufuncs import form_of_special
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.jit.ufunc_form import Form
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.support.data_classes import dataclass

_LN2, _LOG10_E = "0.6931471805599453", "0.4342944819032518"
# Corrected by a step of Newton's, since a third is no float.
_ROOT = "pow(abs({0}), 0.3333333333333333)"
_CBRT = (
    f"({{0}} if {{0}} == 0.0 or not (abs({{0}}) < inf) else (1.0 if {{0}} > 0.0 else -1.0) * "
    f"({_ROOT} - ({_ROOT} * {_ROOT} * {_ROOT} - abs({{0}})) / (3.0 * {_ROOT} * {_ROOT})))"
)
# A negative zero has a negative reciprocal.
_NEGATIVE = "({0} < 0.0 or 1.0 / {0} < 0.0)"
_TRUNCATING_DIVISION = "({0} // {1} if {0} % {1} == 0 or ({0} < 0) == ({1} < 0) else {0} // {1} + 1)"
# In f64, of operands that were f32 or narrower: there the quotient's floor is exact up to 2**29.
_FINITE_BY_INFINITE = "abs({1}) == inf and abs({0}) < inf"
_TRUNCATED = "(floor({0} / {1}) if {0} / {1} >= 0.0 else ceil({0} / {1}))"
_FLOOR_DIVISION = (
    "({0} - {0} if abs({0}) == inf and {1} != 0.0 else "
    "({0} / {1} if {0} == 0.0 or ({0} > 0.0) == ({1} > 0.0) else -1.0) "
    f"if {_FINITE_BY_INFINITE} else floor({{0}} / {{1}}))"
)
# A remainder of zero has the sign of the divisor; `a - b` of equal ones is 0, and `-(b - a)` is -0.
_REMAINDER = (
    f"((1.0 / {{1}} if {{0}} == 0.0 else {{0}} if ({{0}} > 0.0) == ({{1}} > 0.0) else {{1}}) if {_FINITE_BY_INFINITE} "
    f"else 0.0 * {{1}} if {NOTHING_LEFT} else {{0}} - floor({{0}} / {{1}}) * {{1}} if {{1}} > 0.0 "
    "else -(floor({0} / {1}) * {1} - {0}))"
)
# That of `fmod` has the sign of what is divided.
_FMOD = (
    f"({{0}} if {_FINITE_BY_INFINITE} else 0.0 * {{0}} if {NOTHING_LEFT} else {{0}} / {{1}} * {{1}} if {{0}} == 0.0 "
    f"else {{0}} - {_TRUNCATED} * {{1}} if {{0}} > 0.0 else -({_TRUNCATED} * {{1}} - {{0}}))"
)
# The larger one is taken out, so that no square overflows.
_LONG, _SHORT = "max(abs({0}), abs({1}))", "min(abs({0}), abs({1}))"
_HYPOT = (
    "(inf if abs({0}) == inf or abs({1}) == inf else "
    f"0.0 if {_LONG} == 0.0 else {_LONG} * sqrt(1.0 + ({_SHORT} / {_LONG}) * ({_SHORT} / {_LONG})))"
)


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "absolute": Form("abs({0})", unsigned="{0}", bools="{0}"),
        "add": Form("{0} + {1}", bools="{0} or {1}"),
        "arccos": Form(floats="acos({0})"),
        "arccosh": Form(floats="acosh({0})"),
        "arcsin": Form(floats="asin({0})"),
        "arcsinh": Form(floats="asinh({0})"),
        "arctan": Form(floats="atan({0})"),
        "arctan2": Form(floats="atan2({0}, {1})"),
        "arctanh": Form(floats="atanh({0})"),
        "bitwise_and": Form(integers="{0} & {1}", bools="{0} and {1}"),
        "bitwise_or": Form(integers="{0} | {1}", bools="{0} or {1}"),
        "bitwise_xor": Form(integers="{0} ^ {1}", bools="{0} != {1}"),
        "cbrt": Form(floats=_CBRT),
        "ceil": Form("{0}", floats="ceil({0})"),
        "conjugate": Form("{0}"),
        "copysign": Form(floats=f"(-abs({{0}}) if {_NEGATIVE.replace('{0}', '{1}')} else abs({{0}}))", divides=True),
        "cos": Form(floats="cos({0})"),
        "cosh": Form(floats="cosh({0})"),
        "deg2rad": Form(floats="{0} * 0.017453292519943295"),
        "divide": Form(floats="{0} / {1}", divides=True),
        "equal": Form("{0} == {1}"),
        "exp": Form(floats="exp({0})"),
        "exp2": Form(floats="exp2({0})"),
        "expm1": Form(floats="expm1({0})"),
        "fabs": Form(floats="abs({0})"),
        "float_power": Form(floats="pow({0}, {1})"),
        "floor": Form("{0}", floats="floor({0})"),
        "floor_divide": Form(floats=_FLOOR_DIVISION, integers="{0} // {1}", divides=True, wide=True),
        "fmax": Form(
            "max({0}, {1})", bools="{0} or {1}", floats="({1} if {0} != {0} else {0} if {1} != {1} else max({0}, {1}))"
        ),
        "fmin": Form(
            "min({0}, {1})", bools="{0} and {1}", floats="({1} if {0} != {0} else {0} if {1} != {1} else min({0}, {1}))"
        ),
        "fmod": Form(
            floats=_FMOD,
            integers=f"(0 if {{1}} == 0 else {{0}} - {_TRUNCATING_DIVISION} * {{1}})",
            divides=True,
            wide=True,
        ),
        "greater": Form("{0} > {1}", bools="{0} and not {1}"),
        "greater_equal": Form("{0} >= {1}", bools="{0} or not {1}"),
        "heaviside": Form(floats="({0} if {0} != {0} else 0.0 if {0} < 0.0 else 1.0 if {0} > 0.0 else {1})"),
        "hypot": Form(floats=_HYPOT),
        "invert": Form(integers="~{0}", bools="not {0}"),
        "isfinite": Form("{0} == {0}", floats="abs({0}) < inf"),
        "isinf": Form("{0} != {0}", floats="abs({0}) == inf"),
        "isnan": Form("{0} != {0}"),
        "left_shift": Form(integers="{0} << {1}"),
        "less": Form("{0} < {1}", bools="not {0} and {1}"),
        "less_equal": Form("{0} <= {1}", bools="not {0} or {1}"),
        "log": Form(floats="log({0})"),
        "log10": Form(floats=f"log({{0}}) * {_LOG10_E}"),
        "log1p": Form(floats="log1p({0})"),
        "log2": Form(floats="log2({0})"),
        "logaddexp": Form(
            floats=f"({{0}} + {_LN2} if {{0}} == {{1}} else max({{0}}, {{1}}) + log1p(exp(-abs({{0}} - {{1}}))))"
        ),
        "logaddexp2": Form(
            floats=f"({{0}} + 1.0 if {{0}} == {{1}} else max({{0}}, {{1}}) + log1p(exp2(-abs({{0}} - {{1}}))) / {_LN2})"
        ),
        "logical_and": Form("{0} and {1}", of_truth=True),
        "logical_not": Form("not {0}", of_truth=True),
        "logical_or": Form("{0} or {1}", of_truth=True),
        "logical_xor": Form("{0} != {1}", of_truth=True),
        "maximum": Form("max({0}, {1})", bools="{0} or {1}"),
        "minimum": Form("min({0}, {1})", bools="{0} and {1}"),
        "multiply": Form("{0} * {1}", bools="{0} and {1}"),
        "negative": Form("-{0}"),
        "not_equal": Form("{0} != {1}"),
        "positive": Form("{0}"),
        "rad2deg": Form(floats="{0} * 57.29577951308232"),
        "reciprocal": Form(floats="1.0 / {0}", divides=True),
        "remainder": Form(floats=_REMAINDER, integers="{0} % {1}", divides=True, wide=True),
        "right_shift": Form(integers="{0} >> {1}"),
        "rint": Form("{0}", floats="rint({0})"),
        "sign": Form(
            "(1 if {0} > 0 else -1 if {0} < 0 else {0})",
            floats="(1 if {0} > 0 else -1 if {0} < 0 else abs({0}))",
            unsigned="(1 if {0} > 0 else 0)",
        ),
        "signbit": Form("{0} < 0", floats=_NEGATIVE),
        "sin": Form(floats="sin({0})"),
        "sinh": Form(floats="sinh({0})"),
        "sqrt": Form(floats="sqrt({0})"),
        "square": Form("{0} * {0}"),
        "subtract": Form("{0} - {1}"),
        "tan": Form(floats="tan({0})"),
        "tanh": Form(floats="tanh({0})"),
        "trunc": Form("{0}", floats="(floor({0}) if {0} >= 0.0 else ceil({0}))"),
    }
)
# Of i64 with u64: no type has both.
_UNSIGNED_CAST = "u64(max({0}, 0))"
_MIXED_SIGN_COMPARISONS = {
    "equal": f"{{0}} >= 0 and {_UNSIGNED_CAST} == {{1}}",
    "not_equal": f"{{0}} < 0 or {_UNSIGNED_CAST} != {{1}}",
    "less": f"{{0}} < 0 or {_UNSIGNED_CAST} < {{1}}",
    "less_equal": f"{{0}} < 0 or {_UNSIGNED_CAST} <= {{1}}",
    "greater": f"{{0}} >= 0 and {_UNSIGNED_CAST} > {{1}}",
    "greater_equal": f"{{0}} >= 0 and {_UNSIGNED_CAST} >= {{1}}",
}
_SWAPPED_COMPARISONS = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
}
_ALIASES = {"radians": "deg2rad", "degrees": "rad2deg", "true_divide": "divide"}
Special: TypeAlias = Callable[[ArrayTrace, Sequence[GraphValue], DType], GraphValue]


@dataclass(frozen=True)
class _Application:
    """A ufunc of values, each computed in a type, whose result has the type `result`."""

    trace: ArrayTrace
    ufunc: np.ufunc
    values: Sequence[GraphValue]
    computed: tuple[DType, ...]
    result: DType

    @property
    def name(self) -> str:
        """The ufunc's name in the tables here."""
        return _ALIASES.get(self.ufunc.__name__, self.ufunc.__name__)


def apply_ufunc(trace: ArrayTrace, ufunc: np.ufunc, operands: Sequence[Any], dtype: Any = None) -> GraphValue:
    """What a ufunc makes of operands, in NumPy's types. Raises Unsupported and TraceError."""
    given = tuple(_operand(trace, operand) for operand in operands)
    decided = _compare_beyond(trace, ufunc, given)
    if decided is not None:
        return decided
    types = tuple(
        operand.value.type.dtype.numpy if isinstance(operand, TracedOperand) else weak_type(operand)
        for operand in given
    )
    computed, result = resolve_types(ufunc, types, dtype)
    values = [
        trace.value(operand, wanted if weak in (int, float, bool) else None)
        for operand, wanted, weak in zip(given, computed, types, strict=True)
    ]
    applied = _Application(trace, ufunc, values, computed, result)
    special = _special_form(applied)
    return _apply_form(applied) if special is None else special


def _operand(trace: ArrayTrace, operand: Any) -> Any:
    """A traced operand, an array, or a number of Python's, whose type is weak."""
    if isinstance(operand, TracedOperand | np.ndarray | np.generic) or type(operand) in (int, float, bool):
        return operand
    return trace.value(operand) if _has_operands(operand) else np.asarray(operand)


def _compare_beyond(trace: ArrayTrace, ufunc: np.ufunc, operands: Sequence[Any]) -> GraphValue | None:
    """A comparison of integers with a number of Python's that is beyond their type: the same for all of them."""
    if ufunc.__name__ not in _MIXED_SIGN_COMPARISONS or int not in map(type, operands):
        return None
    number = next(n for n, operand in enumerate(operands) if type(operand) is int)
    other = operands[1 - number]
    dtype = trace.value(other).type.dtype
    if not dtype.is_integer:
        return None
    low, high = (limit_of(dtype, largest=largest) for largest in (False, True))
    if low <= operands[number] <= high:
        return None
    holds = ufunc(*(operands[number] if n == number else low for n in range(2)))
    made = trace.nodes.constant("comparison", np.array(bool(holds)))
    return trace.nodes.call("Expand", made, trace.nodes.integers("shape", trace.value(other).shape))


def _special_form(applied: _Application) -> GraphValue | None:
    """What a ufunc makes that is more than an expression."""
    trace, name, computed = applied.trace, applied.name, applied.computed
    special = _SPECIAL.get(name)
    if special is not None:
        values = [trace.nodes.cast(v, t) for v, t in zip(applied.values, computed, strict=True)]
        return special(trace, values, applied.result)
    if name in _MIXED_SIGN_COMPARISONS and set(computed) == {DType.I64, DType.U64}:
        return _compare_mixed_signs(trace, name, applied.values, computed)
    return None


def _apply_form(applied: _Application) -> GraphValue:
    """Compute a ufunc by its expression in `FORMS`."""
    trace, computed, result = applied.trace, applied.computed, applied.result
    form = FORMS.get(applied.name) or form_of_special(applied.ufunc)
    if form.of_truth:
        computed = (DType.BOOL,) * len(computed)
    text = form.text(computed[0])
    if not text:
        raise Unsupported(f"{_full_name(applied.ufunc)} of {computed[0]} has no form in the language")
    if applied.name in EXACT_DIVISIONS and computed[0] is DType.F64:
        return divide_exactly(trace.nodes, applied.name, *(trace.nodes.cast(v, DType.F64) for v in applied.values))
    if form.wide and computed[0].is_float:
        text, computed = f"{result}({text})", (DType.F64,) * len(computed)
    if text == "{0}" and computed[0] is result:
        return trace.nodes.cast(applied.values[0], result)
    return trace.nodes.expression(applied.name.title(), text, applied.values, computed, result, divides=form.divides)


def _full_name(ufunc: np.ufunc) -> str:
    """What a ufunc is called: one of NumPy's own by its place there."""
    name = ufunc.__name__
    return f"np.{name}" if getattr(np, name, None) is ufunc else f"the ufunc `{name}`"


def _has_operands(operand: Any) -> bool:
    return isinstance(operand, list | tuple) and any(
        isinstance(part, TracedOperand) or _has_operands(part) for part in operand
    )


# --- ufuncs that are more than an expression -------------------------------------------------------------------


def _compare_mixed_signs(
    trace: ArrayTrace, name: str, values: Sequence[GraphValue], computed: tuple[DType, ...]
) -> GraphValue:
    """A comparison of i64 with u64, exact as NumPy's."""
    if computed[0] is DType.U64:
        name, values, computed = _SWAPPED_COMPARISONS.get(name, name), values[::-1], computed[::-1]
    return trace.nodes.expression(name.title(), _MIXED_SIGN_COMPARISONS[name], values, computed, DType.BOOL)


def _matmul(trace: ArrayTrace, values: Sequence[GraphValue], result: DType) -> GraphValue:
    if not result.is_bool:
        return trace.nodes.call("MatMul", *values)
    return trace.nodes.cast(trace.nodes.call("MatMul", *(trace.nodes.cast(x, DType.I32) for x in values)), result)


def _make_shift(name: str) -> Special:
    """A shift, of which the language takes a constant only below the number of bits: NumPy shifts all of them out."""

    def special(trace: ArrayTrace, values: Sequence[GraphValue], result: DType) -> GraphValue:
        form, places = FORMS[name], values[1].constant
        text = form.text(result)
        if places is not None and places.size == 1 and not 0 <= places.item() < result.bits:
            fills = name == "right_shift" and not result.is_unsigned
            # The places say the shape of the result, too.
            text = f"({{0}} >> {result.bits - 1}) + ({{1}} - {{1}})" if fills else "{0} * 0 + ({1} - {1})"
        return trace.nodes.expression(name.title(), text, values, [result] * 2, result)

    return special


_SPECIAL: Mapping[str, Special] = MappingProxyType(
    {
        "bitwise_count": count_bits,
        "left_shift": _make_shift("left_shift"),
        "matmul": _matmul,
        "power": power,
        "right_shift": _make_shift("right_shift"),
    }
)


def known_ufuncs() -> list[str]:
    """The names of the ufuncs that can be traced, in order."""
    return sorted({*FORMS, *_SPECIAL, *_ALIASES, "divmod", "matvec", "modf", "vecdot", "vecmat"})
