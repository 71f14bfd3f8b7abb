"""atan, and what atan2 shares with it: a polynomial on [0, 1], and pi/2 - atan(1/x) beyond."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes

# pi / 2 as a sum of doubles.
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
# The polynomials are for (atan(t) / t - 1) / t^2 in t^2: minimax, of the error of atan(t).
_SINGLE = (
    -0.33333302829183264,
    0.19998663651761925,
    -0.14265485153214938,
    0.10958733490689353,
    -0.08422628792033936,
    0.058286001060217606,
    -0.03150472518277367,
    0.011089773527588116,
    -0.0018326920177615664,
)
_DOUBLE = (
    -0.33333333333332177,
    0.1999999999979519,
    -0.142857142732245,
    0.11111110725358853,
    -0.09090901937285241,
    0.07692219966505902,
    -0.06665909960961085,
    0.05877562815389123,
    -0.05240213808358986,
    0.04676816952729766,
    -0.04099072217609132,
    0.03417902251282904,
    -0.02597451053275988,
    0.01712738350297947,
    -0.00929738054871791,
    0.00391761193938041,
    -0.001187066467114651,
    0.00022826229542515997,
    -2.080859465047697e-05,
)


def atan_of_one_at_most(f: Formula, t: Lanes) -> Lanes:
    """What atan(t) is more than t, for t in [0, 1]."""
    z = t * t
    return t * (z * f.polynomial(z, _DOUBLE if f.is_double else _SINGLE))


def half_pi(f: Formula) -> tuple[float, float]:
    """pi / 2 as a number of the type, and the rest."""
    return f.split(HALF_PI, f.mantissa + 1)


@math_function(
    f32=1.5,
    f64=1.5,
    cost=26.0,
    evaluate=math.atan,
    numpy=np.arctan,
    numba="math.atan({0})",
    slopes=lambda _: (number(1.0),),
    numpy_names=("arctan",),
)
def atan(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    turned = size > 1.0
    t = f.select(turned, 1.0 / size, size)
    more = atan_of_one_at_most(f, t)
    high, low = half_pi(f)
    return f.copysign(f.select(turned, high - (t + (more - low)), t + more), x)
