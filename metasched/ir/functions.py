"""The math functions of the language: names, number of arguments, element types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

# What a division costs; square roots are like it.
DIVISION_COST = 8.0


@dataclass(frozen=True)
class Function:
    """A math function. All arguments and the result have one dtype.

    `integers` says that integer dtypes are taken besides floats. `evaluate` gives the value on Python
    numbers, in double precision, to fold constants; it raises ValueError, OverflowError or ZeroDivisionError
    outside the function's domain.

    `cost` is roughly how many vector instructions an element takes, where an addition is one.
    """

    name: str
    arity: int
    evaluate: Callable[..., float]
    cost: float = 24.0
    integers: bool = False

    @property
    def expensive(self) -> bool:
        """Whether it is a chain of many instructions, more than a division."""
        return self.cost > DIVISION_COST


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        f.name: f
        for f in (
            Function("abs", 1, abs, 1.0, integers=True),
            Function("exp", 1, math.exp, 14.0),
            Function("exp2", 1, lambda x: math.pow(2.0, x)),
            Function("log", 1, math.log, 18.0),
            Function("log2", 1, math.log2),
            Function("log1p", 1, math.log1p),
            Function("expm1", 1, math.expm1),
            Function("sqrt", 1, math.sqrt, DIVISION_COST),
            Function("rsqrt", 1, lambda x: 1.0 / math.sqrt(x), DIVISION_COST),
            Function("sin", 1, math.sin),
            Function("cos", 1, math.cos),
            Function("tanh", 1, math.tanh),
            Function("erf", 1, math.erf),
            Function("sigmoid", 1, _sigmoid),
            Function("floor", 1, lambda x: float(math.floor(x)), 1.0),
            Function("ceil", 1, lambda x: float(math.ceil(x)), 1.0),
            Function("pow", 2, math.pow),
        )
    }
)
