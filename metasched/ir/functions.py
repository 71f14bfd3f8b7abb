"""The math functions of the language: names, number of arguments, element types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Function:
    """A math function. All arguments and the result have one dtype.

    `integers` says that integer dtypes are taken besides floats. `evaluate` gives the value on Python
    numbers, in double precision, to fold constants; it raises ValueError, OverflowError or ZeroDivisionError
    outside the function's domain.
    """

    name: str
    arity: int
    evaluate: Callable[..., float]
    integers: bool = False


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        f.name: f
        for f in (
            Function("abs", 1, abs, integers=True),
            Function("exp", 1, math.exp),
            Function("exp2", 1, lambda x: math.pow(2.0, x)),
            Function("log", 1, math.log),
            Function("log2", 1, math.log2),
            Function("log1p", 1, math.log1p),
            Function("expm1", 1, math.expm1),
            Function("sqrt", 1, math.sqrt),
            Function("rsqrt", 1, lambda x: 1.0 / math.sqrt(x)),
            Function("sin", 1, math.sin),
            Function("cos", 1, math.cos),
            Function("tanh", 1, math.tanh),
            Function("erf", 1, math.erf),
            Function("sigmoid", 1, _sigmoid),
            Function("floor", 1, lambda x: float(math.floor(x))),
            Function("ceil", 1, lambda x: float(math.ceil(x))),
            Function("pow", 2, math.pow),
        )
    }
)
