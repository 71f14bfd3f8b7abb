"""sqrt: the root, rounded correctly."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import DIVISION_COST, double, math_function, number
from metasched.functions.formula import Formula, Lanes
from metasched.ir.nodes import Expr, Select


def _slopes(x: Expr) -> tuple[Expr]:
    return (Select(x > 0.0, number(0.5) / double("sqrt", x), number(0.0)),)


@math_function(
    f32=0.5,
    f64=0.5,
    cost=DIVISION_COST,
    evaluate=math.sqrt,
    numpy=np.sqrt,
    numba="math.sqrt({0})",
    slopes=_slopes,
    in_place=True,
)
def sqrt(f: Formula, x: Lanes) -> Lanes:
    return f.sqrt(x)
