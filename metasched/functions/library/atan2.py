"""atan2: the angle of a point, by atan of the smaller coordinate over the larger, with the cases of C's `atan2`."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number, size
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.atan import atan_of_one_at_most, half_pi
from metasched.ir.nodes import Expr


def _slopes(y: Expr, x: Expr) -> tuple[Expr, Expr]:
    # Each is at most one over the distance from the origin, which is at least half of the sizes' sum.
    slope = number(2.0) / (size(x) + size(y))
    return slope, slope


@math_function(
    f32=1.8,
    f64=1.8,
    cost=40.0,
    evaluate=math.atan2,
    numpy=np.arctan2,
    numba="math.atan2({0}, {1})",
    slopes=_slopes,
    numpy_names=("arctan2",),
)
def atan2(f: Formula, y: Lanes, x: Lanes) -> Lanes:
    width, height = f.abs(x), f.abs(y)
    steep = height > width
    longer, shorter = f.select(steep, height, width), f.select(steep, width, height)
    # At the origin, and where both are infinite, the quotient is none.
    t = f.select(longer.equals(0.0), 0.0, f.select(shorter.equals(math.inf), 1.0, shorter / longer))
    more = atan_of_one_at_most(f, t)
    # A zero has a sign, too.
    left = f.copysign(f.lift(1.0), x) < 0.0
    high, low = half_pi(f)
    quarters = f.select(steep, 1.0, f.select(left, 2.0, 0.0))
    # The angle is that many quarters, plus or minus what lies between the point and that axis.
    sign = f.select(f.select(left, 1.0, -1.0) * f.select(steep, 1.0, -1.0) > 0.0, 1.0, -1.0)
    angle = quarters * high + (sign * t + (sign * more + quarters * low))
    # Of NaN no order holds: whichever coordinate it is, it comes through.
    angle = f.select(f.is_nan(x), x, f.select(f.is_nan(y), y, angle))
    return f.copysign(angle, y)
