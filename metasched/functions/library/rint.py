"""rint: the whole number nearest to x; of two, the even one."""

from __future__ import annotations

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=0.0,
    f64=0.0,
    cost=1.0,
    evaluate=lambda x: float(np.rint(x)),
    numpy=np.rint,
    numba="np.rint({0})",
    slopes=lambda _: (number(1.0),),
    in_place=True,
)
def rint(f: Formula, x: Lanes) -> Lanes:
    return f.rint(x)
