"""ceil: the smallest whole number that is not below x."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import double, math_function, over_distance
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=0.0,
    f64=0.0,
    cost=1.0,
    evaluate=lambda x: float(math.ceil(x)),
    numpy=np.ceil,
    numba="np.ceil({0})",
    slopes=lambda x: (over_distance(x - double("rint", x)),),
    in_place=True,
)
def ceil(f: Formula, x: Lanes) -> Lanes:
    return f.ceil(x)
