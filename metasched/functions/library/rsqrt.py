"""rsqrt: one over the root, both rounded: no estimate."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import DIVISION_COST, double, math_function, size
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=1.5,
    f64=1.5,
    cost=2 * DIVISION_COST,
    evaluate=lambda x: 1.0 / math.sqrt(x),
    numpy=lambda x: 1.0 / np.sqrt(x),
    numba="1.0 / math.sqrt({0})",
    slopes=lambda x: (double("rsqrt", x) / size(x),),
    in_place=True,
)
def rsqrt(f: Formula, x: Lanes) -> Lanes:
    return 1.0 / f.sqrt(x)
