"""erfc: 1 - erf(x) for small x; for large, (1 + 2x) e^(x^2) erfc(x) as a polynomial in (x - c) / (x + c) (Shepherd and
Laframboise 1981).

The square is exact, so that small results have all their digits; those of 1 - erf(x) are rounded away.
"""

from __future__ import annotations

import math

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library import erf

# For small x: erf(x) / x - 1, in x^2
_NEAR_ZERO = {
    False: (
        0.12837916560179147,
        -0.37612609007469805,
        0.11282831428465862,
        -0.026757732735015517,
        0.004719082567218814,
    ),
    True: erf.NEAR_ZERO,
}
# Below it x is small.
_SEAM = 0.5
# By whether the type is f64: where the new variable is zero, and the polynomial in it.
_CENTRES = {False: 3.0, True: 3.75}
_SINGLE = (
    1.2530080586227814,
    -0.13562115555162374,
    -0.04756237295495716,
    0.12964685753558736,
    -0.11927094404742608,
    0.0682927481142939,
    -0.023800059008716082,
    0.0025729044604020654,
    0.002009782326800982,
    -0.0007758974229633464,
    -0.00026900680224386126,
)
_DOUBLE = (
    1.2375126308378275,
    -0.1402405985855467,
    0.003585415485463779,
    0.08227673849011204,
    -0.10880393014171236,
    0.09230432116153116,
    -0.05869339859030941,
    0.028362277400457724,
    -0.009746579553431873,
    0.001755626017152004,
    0.00029371366631088616,
    -0.00029015496529570924,
    5.1648913469599865e-05,
    2.2387259638230133e-05,
    -1.1442990926805438e-05,
    -9.801666755858578e-07,
    1.7481190468391965e-06,
    -4.815839621672849e-08,
    -2.5261465267715506e-07,
    1.5996335215573707e-08,
    3.285083556233316e-08,
    -8.782125734803521e-10,
    -2.4108215365422332e-09,
)
# From where on the result is zero.
_VANISHING_START = {False: 11.0, True: 28.0}


@math_function(
    f32=4.0,
    f64=4.0,
    cost=55.0,
    evaluate=math.erfc,
    numpy=lambda x: math.erfc(float(x)),
    numba="math.erfc({0})",
    slopes=lambda x: (double("exp", -(x * x)) * 1.13,),
)
def erfc(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    near = size * f.polynomial(size * size, _NEAR_ZERO[f.is_double]) + size
    left = f.select(size < _SEAM, 1.0 - near, _tail(f, size))
    return f.select(x < 0.0, 2.0 - left, left)


def _tail(f: Formula, size: Lanes) -> Lanes:
    end = _VANISHING_START[f.is_double]
    clamped = f.select(size > end, end, size)
    centre = _CENTRES[f.is_double]
    scaled = f.polynomial((clamped - centre) / (clamped + centre), _DOUBLE if f.is_double else _SINGLE)
    square, lost = f.two_product(clamped, clamped)
    power = f.call("exp", -square)
    return (power - power * lost) * (scaled / (clamped + clamped + 1.0))
