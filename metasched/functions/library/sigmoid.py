"""sigmoid: 1 / (1 + e^-x), by the exponential of -|x|, which never overflows and keeps the small results."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes


def _exact(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


@math_function(
    f32=2.5,
    f64=2.5,
    cost=28.0,
    evaluate=_exact,
    numpy=lambda x: 1.0 / (1.0 + np.exp(-x)),
    numba="1.0 / (1.0 + math.exp(-{0}))",
    slopes=lambda _: (number(1.0),),
)
def sigmoid(f: Formula, x: Lanes) -> Lanes:
    small = f.call("exp", -f.abs(x))
    return f.select(x < 0.0, small, 1.0) / (small + 1.0)
