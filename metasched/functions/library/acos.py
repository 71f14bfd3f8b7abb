"""acos: pi/2 - asin(x) near zero, and 2 asin(sqrt((1 - |x|) / 2)), or pi less that, beyond 1/2."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.asin import arc, slopes
from metasched.functions.library.atan import half_pi


@math_function(
    f32=1.5,
    f64=1.5,
    cost=30.0,
    evaluate=math.acos,
    numpy=np.arccos,
    numba="math.acos({0})",
    slopes=slopes,
    numpy_names=("arccos",),
)
def acos(f: Formula, x: Lanes) -> Lanes:
    above, t, more = arc(f, f.abs(x))
    high, low = half_pi(f)
    between = high - (f.copysign(t, x) + (f.copysign(more, x) - low))
    right = t * 2.0 + more * 2.0
    left = 2.0 * high - (right - 2.0 * low)
    return f.select(above, f.select(x < 0.0, left, right), between)
