"""atanh: log1p(2x / (1 - x)) / 2 (Abramowitz and Stegun 4.6)."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number, size
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=2.5,
    f64=2.5,
    cost=62.0,
    evaluate=math.atanh,
    numpy=np.arctanh,
    numba="math.atanh({0})",
    slopes=lambda x: (number(1.0) / size(1.0 - x * x),),
    numpy_names=("arctanh",),
)
def atanh(f: Formula, x: Lanes) -> Lanes:
    size_ = f.abs(x)
    result = f.call("log1p", size_ * 2.0 / (1.0 - size_)) * 0.5
    return f.copysign(result, x)
