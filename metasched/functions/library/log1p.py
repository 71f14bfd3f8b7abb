"""log1p: log(u) for the rounded u = 1 + x, with what rounding lost added (Kahan's correction)."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number, size
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.exp import LN2
from metasched.functions.library.log import log_of_one_plus, split_exponent


@math_function(
    f32=1.0,
    f64=1.0,
    cost=50.0,
    evaluate=math.log1p,
    numpy=np.log1p,
    numba="math.log1p({0})",
    slopes=lambda x: (number(1.0) / size(x + 1.0),),
)
def log1p(f: Formula, x: Lanes) -> Lanes:
    u = x + 1.0
    # Rounding lost the smaller of 1 and x, or a part of it.
    lost = f.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e, m1 = split_exponent(f, u)
    large, small = log_of_one_plus(f, m1)
    high, low = f.split(LN2, 33 if f.is_double else 12)
    result = e * high + (large + (e * low + (small + lost / u)))
    result = f.select(x > -1.0, result, math.nan)
    result = f.select(x.equals(-1.0), -math.inf, result)
    result = f.select(x.equals(math.inf), math.inf, result)
    result = f.select(f.is_nan(x), x, result)
    # Also the sign of zero, and denormals.
    return f.select(f.abs(x) < math.ldexp(1.0, -f.mantissa - 1), x, result)
