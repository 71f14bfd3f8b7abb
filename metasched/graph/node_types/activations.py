"""Activation functions, element by element."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import Import, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import real

Results = tuple[GraphValue, ...]

_SOFTPLUS = "(max({0}, 0.0) + log1p(exp(-abs({0}))))"
# The expression of a type, where {0} is the operand and words in braces are attributes.
_EXPRESSIONS = {
    "Celu": "max({{0}}, 0.0) + min(0.0, {alpha} * expm1({{0}} / {alpha}))",
    "Elu": "({{0}} if {{0}} >= 0.0 else {alpha} * expm1({{0}}))",
    "HardSigmoid": "max(0.0, min(1.0, {alpha} * {{0}} + {beta}))",
    "HardSwish": "{{0}} * max(0.0, min(1.0, {{0}} / 6.0 + 0.5))",
    "LeakyRelu": "({{0}} if {{0}} >= 0.0 else {alpha} * {{0}})",
    "Mish": "{{0}} * tanh(" + _SOFTPLUS.replace("{0}", "{{0}}") + ")",
    "Selu": "{gamma} * ({{0}} if {{0}} > 0.0 else {alpha} * expm1({{0}}))",
    "Sigmoid": "sigmoid({{0}})",
    "Softplus": _SOFTPLUS.replace("{0}", "{{0}}"),
    "Softsign": "{{0}} / (1.0 + abs({{0}}))",
    "Swish": "{{0}} * sigmoid({alpha} * {{0}})",
    "Tanh": "tanh({{0}})",
    "ThresholdedRelu": "({{0}} if {{0}} > {alpha} else 0.0)",
}


def _activation(expression: str) -> Import:
    def run(site: NodeSite) -> Results:
        x = site.operand(0)
        if not x.type.dtype.is_float:
            raise Unsupported(f"it is of floats, and its input is {x.type}")
        given = {name: real(value) for name, value in site.attributes.items() if isinstance(value, float)}
        return (site.elementwise(expression.format(**given), x),)

    return run


@node_type("Relu")
def relu(site: NodeSite) -> Results:
    return (site.elementwise("max({0}, 0)", site.operand(0)),)


@node_type("Gelu")
def gelu(site: NodeSite) -> Results:
    if site.require_one_of("approximate", "none", ("none", "tanh")) == "tanh":
        inner = "0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})"
        return (site.elementwise(f"0.5 * {{0}} * (1.0 + tanh({inner}))", site.operand(0)),)
    return (site.elementwise("0.5 * {0} * (1.0 + erf({0} * 0.7071067811865476))", site.operand(0)),)


@node_type("PRelu")
def prelu(site: NodeSite) -> Results:
    return (site.elementwise("({0} if {0} >= 0 else {1} * {0})", *site.operands),)


@node_type("Shrink")
def shrink(site: NodeSite) -> Results:
    x = site.operand(0)
    lambd, bias = float(site.attribute("lambd", 0.5)), float(site.attribute("bias", 0.0))
    if not x.type.dtype.is_float:
        if not lambd.is_integer() or not bias.is_integer():
            raise Unsupported("of integers, `lambd` and `bias` must be whole numbers")
        low, high, by, zero = str(-int(lambd)), str(int(lambd)), str(int(bias)), "0"
    else:
        low, high, by, zero = real(-lambd), real(lambd), real(bias), "0.0"
    return (site.elementwise(f"({{0}} + {by} if {{0}} < {low} else {{0}} - {by} if {{0}} > {high} else {zero})", x),)


TABLE: Mapping[str, Import] = {op: _activation(expression) for op, expression in _EXPRESSIONS.items()}
