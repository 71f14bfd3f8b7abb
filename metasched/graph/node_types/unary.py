"""Functions of one operand, element by element."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import Import, node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue, ...]

# Functions of the language, by ONNX's names.
_LANGUAGES_OWN = (
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Sin"),
    *("Sinh", "Sqrt", "Tan"),
)
# The expression of a type, where {0} is the operand. Those of floats only.
_FLOAT = {
    **{op: f"{op.lower()}({{0}})" for op in _LANGUAGES_OWN},
    "IsNaN": "not ({0} == {0})",
    "Reciprocal": "1.0 / {0}",
    "Round": "rint({0})",
}
_BOOLEAN = frozenset({"IsNaN"})


def _float_function(op: str, expression: str) -> Import:
    def run(site: NodeSite) -> Results:
        x = site.operand(0)
        _require_float(x, op)
        return (site.elementwise(expression, x, dtype=DType.BOOL if op in _BOOLEAN else None),)

    return run


def _require_float(x: GraphValue, op: str) -> None:
    if not x.type.dtype.is_float:
        raise Unsupported(f"{op} is of floats, and its input is {x.type}")


@node_type("Abs")
def absolute(site: NodeSite) -> Results:
    x = site.operand(0)
    return (x,) if x.type.dtype.is_unsigned else (site.elementwise("abs({0})", x),)


@node_type("Neg")
def negative(site: NodeSite) -> Results:
    return (site.elementwise("-{0}", site.operand(0)),)


@node_type("Sign")
def sign(site: NodeSite) -> Results:
    x = site.operand(0)
    return (
        (site.elementwise("(1 if {0} > 0 else -1 if {0} < 0 else {0})", x),)
        if not x.type.dtype.is_unsigned
        else (site.elementwise("(1 if {0} > 0 else 0)", x),)
    )


@node_type("Not")
def logical_not(site: NodeSite) -> Results:
    return (site.elementwise("not {0}", site.operand(0)),)


@node_type("IsInf")
def is_inf(site: NodeSite) -> Results:
    x = site.operand(0)
    _require_float(x, site.op)
    signs = [s for s, name in (("inf", "detect_positive"), ("-inf", "detect_negative")) if site.flag(name, 1)]
    expression = " or ".join(f"{{0}} == {s}" for s in signs)
    return (site.elementwise(expression or "({0} != {0} and {0} == {0})", x, dtype=DType.BOOL),)


TABLE: Mapping[str, Import] = {op: _float_function(op, expression) for op, expression in _FLOAT.items()}
