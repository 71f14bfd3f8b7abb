"""acosh: log1p(t + sqrt(2t + t^2)) of t = x - 1, and log(x) + log(2) of what is large (Abramowitz and Stegun 4.6)."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=3.0,
    f64=3.0,
    cost=75.0,
    evaluate=math.acosh,
    numpy=np.arccosh,
    numba="math.acosh({0})",
    slopes=lambda x: (double("rsqrt", x * x - 1.0),),
    numpy_names=("arccosh",),
)
def acosh(f: Formula, x: Lanes) -> Lanes:
    t = x - 1.0
    # From here on 1 is nothing beside x, whose square may be too large.
    large = x > math.ldexp(1.0, f.mantissa + 2)
    grown = f.select(large, x, t + f.sqrt(t * t + t * 2.0))
    result = f.call("log1p", grown) + f.select(large, math.log(2.0), 0.0)
    return f.select(x < 1.0, math.nan, result)
