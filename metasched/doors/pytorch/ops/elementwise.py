"""Operators of elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from metasched.doors import gamma_functions
from metasched.doors.pytorch.registry import AtenOperator, aten
from metasched.doors.pytorch.site import AtenSite, wrap_number
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import real

# Expressions of one operand, in the type of the result.
_EXPRESSIONS = {
    "erf": "erf({0})",
    "erfc": "erfc({0})",
    "hardsigmoid": "max(0.0, min(1.0, {0} / 6.0 + 0.5))",
    "hardswish": "{0} * max(0.0, min(1.0, {0} / 6.0 + 0.5))",
    "relu": "max({0}, 0)",
    "rsqrt": "rsqrt({0})",
    "sigmoid": "sigmoid({0})",
    "silu": "{0} * sigmoid({0})",
}
# NumPy's and SciPy's ufuncs of the same meaning, computed in the type of the result.
_UFUNCS = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atanh": "arctanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "digamma": "psi", "exp": "exp", "exp2": "exp2",
    "expm1": "expm1", "floor": "floor", "lgamma": "gammaln", "log": "log", "log10": "log10", "log1p": "log1p",
    "log2": "log2", "neg": "negative", "reciprocal": "reciprocal", "round": "rint", "sin": "sin", "sinh": "sinh",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
}  # fmt: skip
_BINARY = {
    "atan2": "arctan2", "copysign.Scalar": "copysign", "copysign.Tensor": "copysign", "fmax": "fmax", "fmin": "fmin",
    "fmod.Scalar": "fmod", "fmod.Tensor": "fmod", "heaviside": "heaviside", "hypot": "hypot",
    "logaddexp": "logaddexp", "logaddexp2": "logaddexp2", "maximum": "maximum", "minimum": "minimum",
    "mul.Scalar": "multiply", "mul.Tensor": "multiply", "remainder.Scalar": "remainder",
    "remainder.Tensor": "remainder",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_CLASSIFICATIONS = {"isnan": "isnan", "isinf": "isinf", "signbit": "signbit"}
_LOGIC = {
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "logical_not": "logical_not",
}
_MOST_POWER_FACTORS = 16  # factors of a power
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")


def _expression(text: str) -> AtenOperator:
    return lambda site, x: site.expression(text, x)


def _ufunc(name: str) -> AtenOperator:
    return lambda site, *operands: site.form(name, *operands)


def _promoting_operator(name: str) -> AtenOperator:
    """An operator that computes in the type of the operands together; the result is a bool."""
    return lambda site, *operands: site.form(name, *operands, computed=site.promoted)


def _logic(name: str) -> AtenOperator:
    return lambda site, *operands: site.form(name, *operands, computed=DType.BOOL)


_SHIFTS = [f"{name}.{kind}" for name in ("__lshift__", "__rshift__") for kind in ("Scalar", "Tensor")]
_SHIFTS += [f"bitwise_{side}_shift.{kind}" for side in ("left", "right") for kind in ("Tensor", "Tensor_Scalar")]


@aten(*_SHIFTS)
def shift(site: AtenSite, x: Any, count: Any) -> GraphValue:
    if not site.result.is_integer:
        raise Unsupported("it is of integers")
    return site.form("left_shift" if "lshift" in site.name or "left" in site.name else "right_shift", x, count)


@aten("sign")
def sign(site: AtenSite, x: GraphValue) -> GraphValue:
    """Zero of NaN, unlike NumPy's."""
    if site.result.is_bool:
        return x
    below = "0" if site.result.is_unsigned else "-1 if {0} < 0 else 0"
    return site.expression(f"(1 if {{0}} > 0 else {below})", x)


@aten("round.decimals")
def round_to(site: AtenSite, x: GraphValue, *, decimals: int) -> GraphValue:
    scale = real(10.0 ** abs(decimals))
    return site.expression(
        f"rint({{0}} * {scale}) / {scale}" if decimals > 0 else f"rint({{0}} / {scale}) * {scale}", x
    )


@aten("erfinv")
def inverse_error_function(site: AtenSite, x: GraphValue) -> GraphValue:
    return site.value(gamma_functions.inverse_error_function(site.nodes, site.value(x, DType.F64)), site.result)


@aten("add.Tensor", "add.Scalar")
def add(site: AtenSite, x: Any, other: Any, alpha: float = 1) -> GraphValue:
    if site.result.is_bool:
        return site.expression("{0} or {1}", x, other)
    return site.expression("{0} + {1}" if alpha == 1 else f"{{0}} + {factor(site, alpha)} * {{1}}", x, other)


@aten("sub.Tensor", "sub.Scalar")
def sub(site: AtenSite, x: Any, other: Any, alpha: float = 1) -> GraphValue:
    return site.expression("{0} - {1}" if alpha == 1 else f"{{0}} - {factor(site, alpha)} * {{1}}", x, other)


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(site: AtenSite, x: Any, other: Any, alpha: float = 1) -> GraphValue:
    return sub(site, other, x, alpha)


def factor(site: AtenSite, alpha: float) -> str:
    """A number of Python that scales what is of the result's type."""
    return real(alpha) if site.result.is_float else f"({wrap_number(int(alpha), site.result)})"


@aten("ldexp.Tensor")
def ldexp(site: AtenSite, x: GraphValue, exponent: GraphValue) -> GraphValue:
    return site.expression("{0} * exp2({1})", x, exponent)


@aten("angle")
def angle(site: AtenSite, x: GraphValue) -> GraphValue:
    return site.expression(f"({{0}} if {{0}} != {{0}} else {math.pi!r} if {{0}} < 0.0 else 0.0)", x)


@aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor", "floor_divide")
def div(site: AtenSite, x: Any, other: Any, rounding_mode: str | None = None) -> GraphValue:
    mode = "floor" if "floor_divide" in site.name else rounding_mode
    if mode is None:
        return site.form("divide", x, other)
    if mode == "floor":
        return site.form("floor_divide", x, other)
    if site.result.is_float:
        return site.expression("(floor({0} / {1}) if {0} / {1} >= 0.0 else ceil({0} / {1}))", x, other, divides=True)
    truncated = "({0} // {1} if {0} % {1} == 0 or ({0} < 0) == ({1} < 0) else {0} // {1} + 1)"
    return site.expression(truncated, x, other, divides=True)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(site: AtenSite, x: Any, exponent: Any) -> GraphValue:
    if not isinstance(exponent, GraphValue):
        if site.result.is_integer and isinstance(exponent, int) and exponent >= 0:
            return _integer_power(site, site.value(x, site.result), exponent)
        if exponent in (1, 2, 3):
            return site.expression(" * ".join(["{0}"] * int(exponent)), x)
        named = {0.5: "sqrt({0})", -0.5: "rsqrt({0})", -1: "1.0 / {0}", -2: "1.0 / ({0} * {0})"}.get(exponent)
        if named is not None and site.result.is_float:
            return site.expression(named, x, divides=True)
    if not site.result.is_float:
        raise Unsupported("an integer to such a power has no form in the language")
    return site.expression("pow({0}, {1})", x, exponent)


def _integer_power(site: AtenSite, x: GraphValue, exponent: int) -> GraphValue:
    """An integer to a power, by squares."""
    if exponent <= _MOST_POWER_FACTORS:
        return site.expression(" * ".join(["{0}"] * exponent) or "{0} * 0 + 1", x)
    root = _integer_power(site, x, exponent // 2)
    return site.expression("{0} * {0} * {1}" if exponent % 2 else "{0} * {0}", root, x)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(site: AtenSite, condition: GraphValue, x: Any, other: Any) -> GraphValue:
    values = [site.value(condition, DType.BOOL), site.value(x, site.result), site.value(other, site.result)]
    types = [DType.BOOL, site.result, site.result]
    return site.nodes.expression("Where", "({1} if {0} else {2})", values, types, site.result)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(site: AtenSite, x: GraphValue, mask: GraphValue, value: Any) -> GraphValue:
    return where(site, mask, value, x)


@aten("clamp", "clamp.Tensor", "hardtanh", "clamp_min", "clamp_max")
def clamp(site: AtenSite, x: GraphValue, min: Any = None, max: Any = None, **named: Any) -> GraphValue:  # noqa: A002
    if "hardtanh" in site.name:
        min = -1.0 if min is None else min  # noqa: A001
        max = 1.0 if max is None else max  # noqa: A001
    if "clamp_max" in site.name:
        min, max = None, min  # noqa: A001
    bounds = [bound for bound in (min, max) if bound is not None]
    text = "{0}" if min is None else "max({0}, {1})"
    if max is not None:
        text = f"min({text}, {{{len(bounds)}}})"
    return site.expression(text, x, *bounds)


@aten("gelu")
def gelu(site: AtenSite, x: GraphValue, approximate: str = "none") -> GraphValue:
    return site.call("Gelu", x, approximate=approximate)


@aten("leaky_relu")
def leaky_relu(site: AtenSite, x: GraphValue, negative_slope: float = 0.01) -> GraphValue:
    return site.expression(f"({{0}} if {{0}} > 0.0 else {real(negative_slope)} * {{0}})", x)


@aten("elu")
def elu(site: AtenSite, x: GraphValue, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> GraphValue:
    low = f"{real(alpha * scale)} * expm1({{0}} * {real(input_scale)})"
    return site.expression(f"({{0}} * {real(scale)} if {{0}} > 0.0 else {low})", x)


@aten("softplus")
def softplus(site: AtenSite, x: GraphValue, beta: float = 1.0, threshold: float = 20.0) -> GraphValue:
    scaled = f"({{0}} * {real(beta)})"
    soft = f"(max({scaled}, 0.0) + log1p(exp(-abs({scaled})))) / {real(beta)}"
    return site.expression(f"({{0}} if {scaled} > {real(threshold)} else {soft})", x)


@aten("_prelu_kernel")
def prelu(site: AtenSite, x: GraphValue, weight: GraphValue) -> GraphValue:
    return site.expression("({0} if {0} > 0 else {1} * {0})", x, weight)


@aten("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize(
    site: AtenSite, x: GraphValue, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[GraphValue | None, ...]:
    """Rounded to the values that a quantised tensor can have."""
    site.require_unused(1)
    low, high = (float(n - zero_point) for n in (quant_min, quant_max))
    text = f"min(max(rint({{0}} * {1 / scale!r}), ({low})), ({high})) * {scale!r}"
    return site.expression(text, x), None


# In PyTorch's order: the zero point is added to what is rounded already.
_QUANTISED = "(min(max(rint({{0}} * (1.0 / {{1}})) + {{2}}, {low}), {high}) - {{2}}) * {{1}}"


@aten("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels(
    site: AtenSite,
    x: GraphValue,
    scale: GraphValue,
    zero_point: GraphValue,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> tuple[GraphValue | None, ...]:
    """The same with a scale and a zero point for each channel."""
    site.require_unused(1)
    shape = [extent if n == site.axis(axis, x.rank) else 1 for n, extent in enumerate(x.shape)]
    operands = (site.nodes.view(part, shape) for part in (scale, _require_whole(zero_point)))
    return site.expression(_QUANTISED.format(low=float(quant_min), high=float(quant_max)), x, *operands), None


@aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_by_tensors(
    site: AtenSite,
    x: GraphValue,
    scale: GraphValue,
    zero_point: GraphValue,
    fake_quant_enabled: GraphValue,
    quant_min: int,
    quant_max: int,
) -> tuple[GraphValue | None, ...]:
    """The same with a scale and a zero point that are tensors of one number, where a third one is not 0."""
    site.require_unused(1)
    ones = (1,) * x.rank
    operands = (site.nodes.view(part, ones) for part in (scale, _require_whole(zero_point), fake_quant_enabled))
    text = _QUANTISED.format(low=float(quant_min), high=float(quant_max))
    return site.expression(f"({text} if {{3}} != 0.0 else {{0}})", x, *operands), None


def _require_whole(zero_point: GraphValue) -> GraphValue:
    """Zero points that are whole numbers: others PyTorch adds before it rounds. Raises Unsupported."""
    if not zero_point.type.dtype.is_integer:
        raise Unsupported(f"zero points are whole numbers here, and these are {zero_point.type}")
    return zero_point


TABLE: Mapping[str, AtenOperator] = {
    **{name: _expression(text) for name, text in _EXPRESSIONS.items()},
    **{name: _ufunc(ufunc) for name, ufunc in {**_UFUNCS, **_BINARY}.items()},
    **{f"{name}.{kind}": _promoting_operator(u) for name, u in _COMPARISONS.items() for kind in ("Tensor", "Scalar")},
    **{name: _promoting_operator(ufunc) for name, ufunc in _CLASSIFICATIONS.items()},
    **{name: _logic(ufunc) for name, ufunc in _LOGIC.items()},
    **{f"{name}.{kind}": _ufunc(name) for name in _BITS for kind in ("Tensor", "Scalar")},
    "bitwise_not": _ufunc("invert"),
}
