"""tanh: (e^2x - 1) / (e^2x + 1), by expm1, so that small arguments lose nothing."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes

# From here on the result rounds to one.
_LIMIT = {False: 9.25, True: 19.5}


@math_function(
    f32=2.5,
    f64=2.7,
    cost=36.0,
    evaluate=math.tanh,
    numpy=np.tanh,
    numba="math.tanh({0})",
    slopes=lambda _: (number(1.0),),
)
def tanh(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    limit = _LIMIT[f.is_double]
    grown = f.call("expm1", f.select(size > limit, limit, size) * 2.0)
    return f.copysign(grown / (grown + 2.0), x)
