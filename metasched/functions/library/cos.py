"""cos: a quarter of a turn ahead of sin."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.sin import quadrant


@math_function(
    f32=1.7,
    f64=1.7,
    cost=33.0,
    evaluate=math.cos,
    numpy=np.cos,
    numba="math.cos({0})",
    slopes=lambda _: (number(1.0),),
)
def cos(f: Formula, x: Lanes) -> Lanes:
    return quadrant(f, x, "cos", 1)
