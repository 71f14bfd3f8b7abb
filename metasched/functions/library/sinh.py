"""sinh: a polynomial on [0, 1], and (e^x - e^-x) / 2 beyond; e^x may be too large where this is not."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.exp import half_exp

# The polynomials are for (sinh(x) / x - 1) / x^2 in x^2: minimax.
_SINGLE = (0.1666666648972507, 0.008333350545930672, 0.00019836074383112356, 2.8174001392579415e-06)
_DOUBLE = (
    0.16666666666666669,
    0.008333333333333168,
    0.00019841269841416333,
    2.755731916235068e-06,
    2.5052122239957662e-08,
    1.6057333989922894e-10,
    7.756366738745311e-13,
)


@math_function(
    f32=2.0,
    f64=2.0,
    cost=30.0,
    evaluate=math.sinh,
    numpy=np.sinh,
    numba="math.sinh({0})",
    slopes=lambda x: (double("cosh", x),),
)
def sinh(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    half = half_exp(f, size)
    z = x * x
    small = x + x * (z * f.polynomial(z, _DOUBLE if f.is_double else _SINGLE))
    return f.select(size > 1.0, f.copysign(half - 0.25 / half, x), small)
