"""Comparisons, logic, and choices between two operands."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import Import, node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue, ...]

_EXPRESSIONS = {
    "And": "{0} and {1}",
    "Equal": "{0} == {1}",
    "Greater": "{0} > {1}",
    "GreaterOrEqual": "{0} >= {1}",
    "Less": "{0} < {1}",
    "LessOrEqual": "{0} <= {1}",
    "Or": "{0} or {1}",
    "Xor": "{0} != {1}",
}


def _comparison(expression: str) -> Import:
    def run(site: NodeSite) -> Results:
        x, y = site.operands
        if x.type.dtype is not y.type.dtype:
            raise Unsupported("its operands have different element types")
        return (site.elementwise(expression, x, y, dtype=DType.BOOL),)

    return run


@node_type("Where")
def where(site: NodeSite) -> Results:
    _, x, y = site.operands
    if x.type.dtype is not y.type.dtype:
        raise Unsupported("its operands have different element types")
    return (site.elementwise("({1} if {0} else {2})", *site.operands, dtype=x.type.dtype),)


TABLE: Mapping[str, Import] = {op: _comparison(expression) for op, expression in _EXPRESSIONS.items()}
