"""abs: x without its sign; of integers too, where the lowest of a signed type stays as it is."""

from __future__ import annotations

import builtins

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=0.0,
    f64=0.0,
    cost=1.0,
    evaluate=builtins.abs,
    numpy=np.abs,
    numba="abs({0})",
    slopes=lambda _: (number(1.0),),
    in_place=True,
    integers=True,
    numpy_names=("absolute", "fabs"),
)
def abs(f: Formula, x: Lanes) -> Lanes:  # noqa: A001
    return f.abs(x)
