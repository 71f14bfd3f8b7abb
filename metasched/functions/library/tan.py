"""tan: sin / cos of the same reduced argument, or -cos / sin in every other quadrant."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.sin import LIMIT, reduce_argument
from metasched.ir.nodes import Expr


def _slopes(x: Expr) -> tuple[Expr]:
    value = double("tan", x)
    return (value * value + 1.0,)


@math_function(
    f32=3.5,
    f64=3.5,
    cost=47.0,
    evaluate=math.tan,
    numpy=np.tan,
    numba="math.tan({0})",
    slopes=_slopes,
)
def tan(f: Formula, x: Lanes) -> Lanes:
    n, sine, cosine = reduce_argument(f, x)
    swapped = (n & 1).equals(1)
    result = f.select(swapped, -cosine, sine) / f.select(swapped, sine, cosine)
    result = f.select(x.equals(0.0), x, result)
    return f.beyond(f.abs(x) > LIMIT[f.is_double], result, x, "tan")
