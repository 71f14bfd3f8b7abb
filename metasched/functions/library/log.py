"""log: x = 2^e m with m in [sqrt(1/2), sqrt(2)), and a polynomial for log(m) (Cody and Waite 1980, chapter 5)."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number, size
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.exp import LN2

# The polynomial is for (log(1 + f) - f + f^2 / 2) / f^3
_SINGLE = (
    0.33333331180030046,
    -0.24999996957950882,
    0.200007157488921,
    -0.16667802319501254,
    0.1424905764569748,
    -0.12425687331451106,
    0.1168541992348674,
    -0.11479733846637635,
    0.06971611471451178,
)
# (2 atanh(s) / s - 2) / s^2 in s^2, where s = f / (2 + f)
_DOUBLE = (
    0.6666666666666666,
    0.40000000000001007,
    0.2857142857072325,
    0.22222222409750114,
    0.18181793732111753,
    0.15386342449645143,
    0.13266048812203002,
    0.131148348695975,
)


def split_exponent(f: Formula, x: Lanes) -> tuple[Lanes, Lanes]:
    """The exponent e as a float, and m - 1, for a positive x; a denormal is scaled first."""
    tiny = x < f.smallest_normal
    pattern = f.bits(f.select(tiny, x * math.ldexp(1.0, f.mantissa + 1), x))
    root = f.bits(f.lift(math.sqrt(0.5)))
    exponent = (pattern - root) >> f.mantissa
    m = f.from_bits(pattern - (exponent << f.mantissa))
    shift = f.select(tiny, f.lift(-(f.mantissa + 1), f.integer), 0)
    return f.to_float(exponent + shift), m - 1.0


def log_of_one_plus(f: Formula, m1: Lanes) -> tuple[Lanes, Lanes]:
    """log(1 + m1) as a sum: m1, and what is smaller."""
    half = m1 * m1 * 0.5
    if f.is_double:
        s = m1 / (m1 + 2.0)
        z = s * s
        return m1, s * (half + z * f.polynomial(z, _DOUBLE)) - half
    return m1, m1 * m1 * (m1 * f.polynomial(m1, _SINGLE)) - half


def edges(f: Formula, x: Lanes, result: Lanes) -> Lanes:
    """A logarithm at zero, at infinity, below zero and at NaN."""
    result = f.select(x > 0.0, result, math.nan)
    result = f.select(x.equals(0.0), -math.inf, result)
    result = f.select(x.equals(math.inf), math.inf, result)
    return f.select(f.is_nan(x), x, result)


@math_function(
    f32=0.9,
    f64=0.9,
    cost=35.0,
    evaluate=math.log,
    numpy=np.log,
    numba="math.log({0})",
    slopes=lambda x: (number(1.0) / size(x),),
)
def log(f: Formula, x: Lanes) -> Lanes:
    e, m1 = split_exponent(f, x)
    large, small = log_of_one_plus(f, m1)
    high, low = f.split(LN2, 33 if f.is_double else 12)
    return edges(f, x, e * high + (large + (e * low + small)))
