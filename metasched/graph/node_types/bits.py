"""Functions of the bits of two integers: the language has none, so each bit is a term of a sum."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from metasched.dtypes import integer_range
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import Import
from metasched.graph.site import NodeSite
from metasched.graph.text import at, broadcast, indices, read
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]

# Of two bits {0} and {1}, as integers.
_EXPRESSIONS = {
    "BitwiseAnd": "{0} * {1}",
    "BitwiseOr": "max({0}, {1})",
    "BitwiseXor": "({0} + {1}) % 2",
}


def _bitwise(expression: str) -> Import:
    def run(site: NodeSite) -> Results:
        x, y = site.operands
        dtype = x.type.dtype
        if dtype is not y.type.dtype or not dtype.is_integer:
            raise Unsupported(f"it is of two integers of one type, and its inputs are {x.type} and {y.type}")
        shape, bits = broadcast(x.shape, y.shape), dtype.bits
        over = indices(len(shape))
        # Dividing rounds down, so negative numbers have the bits of two's complement; the last one weighs less than 0.
        steps = [2**n for n in range(bits if dtype.is_unsigned else bits - 1)]
        powers = site.constant(np.array(steps), dtype)
        parts = [f"({read(name, v.shape, over, shape)} // P[k] % 2)" for name, v in (("A", x), ("B", y))]
        total = f"sum[k < {len(steps)}]({expression.format(*parts)} * P[k])"
        if dtype.is_unsigned:
            return (site.single([f"{at('Y', over)} = {total}"], ValueType(dtype, shape), A=x, B=y, P=powers),)
        signs = [f"(1 if {read(name, v.shape, over, shape)} < 0 else 0)" for name, v in (("A", x), ("B", y))]
        lowest = integer_range(dtype)[0]
        stages = [
            f"T: {ValueType(dtype, shape)}",
            f"{at('T', over)} = {total}",
            f"{at('Y', over)} = {at('T', over)} + ({lowest}) * ({expression.format(*signs)})",
        ]
        return (site.single(stages, ValueType(dtype, shape), A=x, B=y, P=powers),)

    return run


TABLE: Mapping[str, Import] = {op: _bitwise(expression) for op, expression in _EXPRESSIONS.items()}
