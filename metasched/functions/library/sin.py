"""sin, and what cos and tan share with it: x = n pi/2 + r by a reduction in three parts, polynomials on [-pi/4, pi/4].

Beyond the reach of that reduction, which few arguments are, lanes go to the C library one by one.
"""

from __future__ import annotations

import math

import numpy as np

from metasched.dtypes import DType
from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes

# pi / 2 as a sum of doubles.
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
LIMIT = {False: 1e5, True: 1e6}
# The polynomials are for (sin(r) / r - 1) / r^2 in r^2
_SIN_SINGLE = (-0.1666666666362283, 0.008333331785217696, -0.00019840038872556747, 2.724378140946123e-06)
_SIN_DOUBLE = (
    -0.16666666666666666,
    0.008333333333333331,
    -0.00019841269841264567,
    2.7557319218954762e-06,
    -2.505210610025599e-08,
    1.6058510875319195e-10,
    -7.585486485235938e-13,
)
# and for (cos(r) - 1 + r^2 / 2) / r^4 in r^2
_COS_SINGLE = (0.04166666666412721, -0.001388888759732781, 2.4800560429914505e-05, -2.7295830827614617e-07)
_COS_DOUBLE = (
    0.041666666666666664,
    -0.0013888888888887241,
    2.480158729853226e-05,
    -2.7557317151858866e-07,
    2.0876121534608454e-09,
    -1.1380868171449914e-11,
)


def _parts(dtype: DType) -> tuple[float, ...]:
    """pi / 2 as a sum of three numbers of the type."""
    if dtype is DType.F64:
        return _HALF_PI
    parts: list[float] = []
    for _ in range(3):
        parts.append(float(np.float32(math.fsum((*_HALF_PI, *(-p for p in parts))))))
    return tuple(parts)


def reduce_argument(f: Formula, x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The integer n, and the sine and the cosine of r, where x = n pi/2 + r and |r| is at most pi/4."""
    rounded, n = f.nearest(x * (2 / math.pi))
    r = x
    for part in _parts(f.dtype):
        r = f.fma(-rounded, part, r)
    z = r * r
    sine = r * z * f.polynomial(z, _SIN_DOUBLE if f.is_double else _SIN_SINGLE) + r
    cosine = z * z * f.polynomial(z, _COS_DOUBLE if f.is_double else _COS_SINGLE) + (1.0 - z * 0.5)
    return n, sine, cosine


def quadrant(f: Formula, x: Lanes, name: str, turn: int) -> Lanes:
    """The sine of x + turn * pi/2; `name` is its function in the C library."""
    n, sine, cosine = reduce_argument(f, x)
    n = n + turn if turn else n
    swapped = (n & 1).equals(1)
    result = f.select(swapped, cosine, sine)
    if not turn:  # the sine of a negative zero, too
        result = f.select(x.equals(0.0), x, result)
    flipped = f.from_bits(f.bits(result) ^ ((n & 2) << (f.mantissa + f.exponent_bits - 1)))
    return f.beyond(f.abs(x) > LIMIT[f.is_double], flipped, x, name)


@math_function(
    f32=1.7,
    f64=1.7,
    cost=35.0,
    evaluate=math.sin,
    numpy=np.sin,
    numba="math.sin({0})",
    slopes=lambda _: (number(1.0),),
)
def sin(f: Formula, x: Lanes) -> Lanes:
    return quadrant(f, x, "sin", 0)
