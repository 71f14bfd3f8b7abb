"""atan, by a polynomial for small x; larger ones are turned by a quarter or an eighth of a circle first."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes

# tan(pi / 8) and tan(3 pi / 8): between them x is turned by pi / 4, beyond by pi / 2.
_SMALL, _LARGE = 0.41421356237309503, 2.414213562373095
# pi / 2 and pi / 4, each as a sum of two doubles
_QUARTER = (1.5707963267948966, 6.123233995736766e-17)
_EIGHTH = (0.7853981633974483, 3.061616997868383e-17)
# (atan(x) / x - 1) / x^2 in x^2, up to tan(pi / 8)
_SINGLE = (
    -0.3333333175970025,
    0.19999540146206404,
    -0.14263943907717944,
    0.10743605148917443,
    -0.06451509518644878,
)
_DOUBLE = (
    -0.3333333333333333,
    0.19999999999995513,
    -0.1428571428466482,
    0.11111111015117626,
    -0.09090904572487347,
    0.07692183059894114,
    -0.06664509603255386,
    0.05858132894427922,
    -0.05085365922344248,
    0.03922923713835943,
    -0.01917392228554793,
)


@math_function(
    f32=1.8,
    f64=1.8,
    cost=45.0,
    evaluate=math.atan,
    numpy=np.arctan,
    numba="math.atan({0})",
    slopes=lambda x: (number(1.0) / (x * x + 1.0),),
    numpy_names=("arctan",),
)
def atan(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    middle, large = size > _SMALL, size > _LARGE
    # One division for either turn: -1 / x, or (x - 1) / (x + 1).
    above = f.select(large, -1.0, size - 1.0)
    below = f.select(large, size, size + 1.0)
    r = f.select(middle, above / below, size)
    bits = f.mantissa + 1
    (quarter, quarter_rest), (eighth, eighth_rest) = f.split(_QUARTER, bits), f.split(_EIGHTH, bits)
    turned = f.select(large, quarter, f.select(middle, eighth, 0.0))
    rest = f.select(large, quarter_rest, f.select(middle, eighth_rest, 0.0))
    square = r * r
    bent = r * (square * f.polynomial(square, _DOUBLE if f.is_double else _SINGLE))
    return f.copysign(turned + (r + (bent + rest)), x)
