"""cosh: (e^x + e^-x) / 2; e^x may be too large where this is not."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function, size
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.exp import half_exp


@math_function(
    f32=2.0,
    f64=2.0,
    cost=20.0,
    evaluate=math.cosh,
    numpy=np.cosh,
    numba="math.cosh({0})",
    slopes=lambda x: (size(double("sinh", x)),),
)
def cosh(f: Formula, x: Lanes) -> Lanes:
    half = half_exp(f, f.abs(x))
    return half + 0.25 / half
