"""exp: e^x = 2^n e^r, r within ln(2)/2 of zero, and a polynomial for e^r (Cody and Waite 1980, chapter 6)."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes

LOG2_E = 1.4426950408889634
# ln(2) as a sum of doubles.
LN2 = (0.6931471805599453, 2.3190468138462996e-17)
# Outside these the result is zero, or infinity.
_LIMITS = {False: (-105.0, 89.0), True: (-746.0, 710.0)}
# The polynomial is for (e^r - 1 - r) / r^2
SINGLE = (0.5, 0.16666573381900845, 0.04166655011030512, 0.008363773874405574, 0.0013926926614021907)
_DOUBLE = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333325544,
    0.0013888888888883327,
    0.00019841269876864356,
    2.4801587327007187e-05,
    2.755725283351691e-06,
    2.75572718102198e-07,
    2.5106274733573296e-08,
    2.0915442297780116e-09,
)


def reduce_argument(f: Formula, x: Lanes) -> tuple[Lanes, Lanes]:
    """The integer n and r with x = n ln(2) + r and |r| at most ln(2) / 2."""
    high, low = f.split(LN2, 33 if f.is_double else 12)
    rounded, n = f.nearest(x * LOG2_E)
    return n, (x - rounded * high) - rounded * low


def half_exp(f: Formula, x: Lanes) -> Lanes:
    """e^x / 2 of an x that is not negative: infinite only where that itself is too large."""
    high = _LIMITS[f.is_double][1] + 1.0
    n, r = reduce_argument(f, f.select(x > high, high, x))
    return f.scale(_power_of_small(f, r), n - 1)


def _power_of_small(f: Formula, r: Lanes) -> Lanes:
    """e^r of a reduced argument."""
    tail = f.polynomial(r, _DOUBLE if f.is_double else SINGLE)
    return (tail * r + 1.0) * r + 1.0


@math_function(
    f32=1.2,
    f64=1.0,
    cost=16.0,
    evaluate=math.exp,
    numpy=np.exp,
    numba="math.exp({0})",
    slopes=lambda x: (double("exp", x),),
    exponential=True,
)
def exp(f: Formula, x: Lanes) -> Lanes:
    low, high = _LIMITS[f.is_double]
    if f.scales_at_once:
        n, r = reduce_argument(f, f.clamp(x, low, high))
        return f.scale(_power_of_small(f, r), n)
    # Scores that are masked are far below: products with such a power underflow, which takes a CPU a hundred cycles.
    is_zero = x < low
    n, r = reduce_argument(f, f.select(is_zero, 0.0, f.select(x > high, high, x)))
    return f.select(is_zero, 0.0, f.scale(_power_of_small(f, r), n))
