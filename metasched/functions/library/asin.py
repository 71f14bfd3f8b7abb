"""asin, and what acos shares with it: a polynomial on [0, 1/2], and asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)) beyond
(Abramowitz and Stegun 4.4).
"""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.atan import half_pi
from metasched.ir.nodes import Expr

# The polynomials are for (asin(t) / t - 1) / t^2 in t^2: minimax, of the error of asin(t).
_SINGLE = (0.1666675074191132, 0.0749534367434559, 0.04546624557208565, 0.024194874427633753, 0.04214597331796217)
_DOUBLE = (
    0.16666666666665653,
    0.0750000000029468,
    0.044642856856052245,
    0.030381958187708443,
    0.0223717775299089,
    0.017359447843770102,
    0.013887491705532388,
    0.01215586928166208,
    0.00658049499236308,
    0.019396310865475715,
    -0.016032758302856446,
    0.031790121061586206,
)


def arc(f: Formula, size: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Whether a size in [0, 1] is above 1/2, and asin(t) as t and the rest, where t is the size itself, or the root of
    (1 - size) / 2 where it is above; NaN beyond 1.
    """
    above = size > 0.5
    z = f.select(above, 0.5 - size * 0.5, size * size)
    t = f.select(above, f.sqrt(z), size)
    return above, t, t * (z * f.polynomial(z, _DOUBLE if f.is_double else _SINGLE))


def slopes(x: Expr) -> tuple[Expr]:
    """The size of the slope, which is that of both functions."""
    return (double("rsqrt", 1.0 - x * x),)


@math_function(
    f32=1.8,
    f64=1.8,
    cost=22.0,
    evaluate=math.asin,
    numpy=np.arcsin,
    numba="math.asin({0})",
    slopes=slopes,
    numpy_names=("arcsin",),
)
def asin(f: Formula, x: Lanes) -> Lanes:
    above, t, more = arc(f, f.abs(x))
    high, low = half_pi(f)
    return f.copysign(f.select(above, high - (t * 2.0 + (more * 2.0 - low)), t + more), x)
