"""exp2: 2^x = 2^n 2^r, r within one half of zero, and a polynomial for 2^r."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes

_LIMITS = {False: (-151.0, 129.0), True: (-1076.0, 1025.0)}
# The polynomial is for (2^r - 1) / r
_SINGLE = (
    0.6931471805599453,
    0.2402265093622689,
    0.055504108849824686,
    0.009618053734326929,
    0.0013333500120002693,
    0.00015462610757797552,
    1.5298221267173666e-05,
)
_DOUBLE = (
    0.6931471805599453,
    0.24022650695910072,
    0.05550410866482163,
    0.00961812910762848,
    0.001333355814640465,
    0.00015403530393369832,
    1.5252733843864855e-05,
    1.3215486809848003e-06,
    1.0178055912546169e-07,
    7.054896722470352e-09,
    4.4560247551334643e-10,
    2.5730348009234352e-11,
)


@math_function(
    f32=0.9,
    f64=1.0,
    cost=15.0,
    evaluate=lambda x: math.pow(2.0, x),
    numpy=np.exp2,
    numba="math.pow(2.0, {0})",
    slopes=lambda x: (double("exp2", x),),
    exponential=True,
)
def exp2(f: Formula, x: Lanes) -> Lanes:
    clamped = f.clamp(x, *_LIMITS[f.is_double])
    rounded, n = f.nearest(clamped)
    r = clamped - rounded
    return f.scale(r * f.polynomial(r, _DOUBLE if f.is_double else _SINGLE) + 1.0, n)
