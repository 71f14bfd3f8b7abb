"""expm1: e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with a polynomial for e^r - 1."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.exp import reduce_argument

# Below the first the result is -1; above the second, infinity.
_LIMITS = {False: (-30.0, 89.0), True: (-60.0, 710.0)}
# The polynomial is for (e^r - 1 - r - r^2 / 2) / r^3
_SINGLE = (
    0.16666666666666666,
    0.04166655011030512,
    0.008333320386633087,
    0.0013926926614021907,
    0.00019883523517486387,
)
_DOUBLE = (
    0.16666666666666666,
    0.04166666666666667,
    0.008333333333333333,
    0.0013888888888883327,
    0.00019841269841266133,
    2.4801587327007187e-05,
    2.7557319240929863e-06,
    2.75572718102198e-07,
    2.50520767806545e-08,
    2.0915442297780116e-09,
    1.6084831332283696e-10,
)


@math_function(
    f32=1.6,
    f64=2.0,
    cost=21.0,
    evaluate=math.expm1,
    numpy=np.expm1,
    numba="math.expm1({0})",
    slopes=lambda x: (double("exp", x),),
)
def expm1(f: Formula, x: Lanes) -> Lanes:
    n, r = reduce_argument(f, f.clamp(x, *_LIMITS[f.is_double]))
    square = r * r
    small = square * (r * f.polynomial(r, _DOUBLE if f.is_double else _SINGLE) + 0.5) + r
    # At half the scale: 2^n may be beyond the largest number where the result is not.
    half = f.power_of_two(n - 1)
    result = (small * half + (half - 0.5)) * 2.0
    # The result of a tiny x is x, with its sign.
    return f.select(f.abs(x) < math.ldexp(1.0, -f.mantissa - 1), x, result)
