"""asinh: log1p(x + x^2 / (1 + sqrt(1 + x^2))), and log(x) + log(2) of what is large (Abramowitz and Stegun 4.6)."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=2.5,
    f64=2.5,
    cost=80.0,
    evaluate=math.asinh,
    numpy=np.arcsinh,
    numba="math.asinh({0})",
    slopes=lambda _: (number(1.0),),
    numpy_names=("arcsinh",),
)
def asinh(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    # From here on 1 is nothing beside x, whose square may be too large.
    large = size > math.ldexp(1.0, f.mantissa + 2)
    square = size * size
    grown = f.select(large, size, size + square / (f.sqrt(square + 1.0) + 1.0))
    result = f.call("log1p", grown) + f.select(large, math.log(2.0), 0.0)
    return f.copysign(result, x)
