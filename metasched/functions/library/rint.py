"""rint: the whole number nearest to x; of two, the even one."""

from __future__ import annotations

import numpy as np

from metasched.functions.declaration import double, math_function, number, over_distance
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=0.0,
    f64=0.0,
    cost=1.0,
    evaluate=lambda x: float(np.rint(x)),
    numpy=np.rint,
    numba="np.rint({0})",
    slopes=lambda x: (over_distance(x - double("floor", x) - number(0.5)),),
    in_place=True,
)
def rint(f: Formula, x: Lanes) -> Lanes:
    return f.rint(x)
