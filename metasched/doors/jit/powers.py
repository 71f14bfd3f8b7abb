"""Powers, those of integers by squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.trace import ArrayTrace
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported

_MOST_FACTORS = 16
_BITS_OF_A_STEP = 3


def power(trace: ArrayTrace, values: Sequence[GraphValue], result: DType) -> GraphValue:
    """Elements to the powers of others, both in the type of the result. Raises Unsupported."""
    base, exponent = values
    number = _number(exponent) if exponent.rank <= base.rank else None
    if number == 0:
        one = trace.nodes.constant("one", np.ones((), result.numpy))
        return trace.nodes.call("Expand", one, trace.nodes.integers("shape", base.shape))
    if number is not None and float(number).is_integer() and 0 < number <= (3 if result.is_float else math.inf):
        return _power_by_squares(trace, trace.nodes.cast(base, result), int(number))
    if number == 0.5 and result.is_float:
        return trace.nodes.expression("Sqrt", "sqrt({0})", [base], [result], result)
    if result.is_integer:
        if number is not None:
            raise Unsupported("integers to negative integer powers are not allowed")
        if _number(base) == 2 and base.rank <= exponent.rank:
            return trace.nodes.expression("Pow", f"{result}(1) << {{0}}", [exponent], [result], result)
        return _power_by_bits(trace, values, result)
    return trace.nodes.expression("Pow", "pow({0}, {1})", values, [result] * 2, result)


def _number(value: GraphValue) -> Any:
    """The one number of a constant; None where a value is not known, or has several."""
    known = value.constant
    return known.reshape(-1)[0].item() if known is not None and known.size == 1 else None


def _power_by_squares(trace: ArrayTrace, base: GraphValue, exponent: int) -> GraphValue:
    dtype = base.type.dtype
    if exponent <= _MOST_FACTORS:
        return trace.nodes.expression("Pow", " * ".join(["{0}"] * exponent), [base], [dtype], dtype)
    root = _power_by_squares(trace, base, exponent // 2)
    text = "{0} * {0} * {1}" if exponent % 2 else "{0} * {0}"
    return trace.nodes.expression("Pow", text, [root, base], [dtype] * 2, dtype)


def _power_by_bits(trace: ArrayTrace, values: Sequence[GraphValue], result: DType) -> GraphValue:
    """Integers to powers that are data: factors for the bits that are set, some in each expression.

    NumPy raises at powers below 0; here such a power is what its bits without the sign are.
    """
    (root, exponent), number = (trace.nodes.cast(value, result) for value in values), _number(values[0])
    found, digits = trace.nodes.constant("one", np.ones((), result.numpy)), result.bits - (not result.is_unsigned)
    for first in range(0, digits, _BITS_OF_A_STEP):
        factors = []
        for place in range(first, min(first + _BITS_OF_A_STEP, digits)):
            square = " * ".join(["{1}"] * 2 ** (place - first))
            square = square if number is None else str(_wrapped_power(number, 2**place, result))
            factors.append(f"({square} if ({{2}} >> {place}) & 1 == 1 else 1)")
        text = " * ".join(("{0}", *factors))
        found = trace.nodes.expression("Pow", text, [found, root, exponent], [result] * 3, result)
        if number is None and first + _BITS_OF_A_STEP < digits:
            root = _power_by_squares(trace, root, 2**_BITS_OF_A_STEP)
    return found


def _wrapped_power(number: int, exponent: int, dtype: DType) -> int:
    found: int = pow(number, exponent, 2**dtype.bits)
    return found - 2**dtype.bits if found >> (dtype.bits - 1) and not dtype.is_unsigned else found
