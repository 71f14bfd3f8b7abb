"""pow: 2^(y log2 |x|), with the logarithm to more bits than the result has, and the cases of C's `pow`.

Single precision computes in double, which has bits enough: the product with y is below 150 where the result is finite.
Double precision keeps the logarithm and its product with y as unevaluated sums of two doubles (Dekker 1971).
"""

from __future__ import annotations

import math
from typing import Any

from metasched.functions.declaration import double, math_function, size
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.log import split_exponent
from metasched.ir.nodes import Expr

Pair = tuple[Lanes, Lanes]
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# What follows 2s + 2/3 s^3 in 2 atanh(s), over s^5, in s^2.
_ATANH = (
    0.4,
    0.285714285714294858,
    0.222222222215834391,
    0.181818183516517495,
    0.15384593242579513,
    0.133348973085470648,
    0.117037807729493687,
    0.117486033656080933,
)


def _value(x: Any, y: Any) -> float:
    """C's `pow` (C11, F.10.4.4). NumPy's takes the root for the power 0.5, which differs at -inf and -0."""
    base, exponent = float(x), float(y)
    odd = exponent % 2.0 == 1.0
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0.0 and odd else math.inf
    except ValueError:
        # Python raises where C divides by zero, and where a negative number has no power.
        return math.nan if base else math.copysign(math.inf, base if odd else 1.0)


def _slopes(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    power = size(double("pow", x, y))
    return power * (size(y) / size(x)), power * size(double("log", size(x)))


@math_function(
    f32=0.6,
    f64=1.5,
    cost=230.0,
    evaluate=math.pow,
    numpy=_value,
    numba="math.pow({0}, {1})",
    slopes=_slopes,
    numpy_names=("power",),
)
def pow(f: Formula, x: Lanes, y: Lanes) -> Lanes:  # noqa: A001
    wide = f.widened()
    base = wide.convert(f.abs(x))
    if wide.mantissa > f.mantissa:
        result = f.convert(wide.call("exp2", wide.call("log2", base) * wide.convert(y)))
    else:
        result = _positive_power(f, base, y)
    return _cases(f, x, y, result)


def _positive_power(f: Formula, x: Lanes, y: Lanes) -> Lanes:
    """The power of a positive number, from its logarithm to more bits than the type has."""
    high, low = _scale_logarithm(f, _log2(f, x), y)
    # A large power is halved first: the large part alone may be beyond the largest number.
    halved = high > 0.0
    power = f.call("exp2", f.select(halved, high - 1.0, high))
    # Where the power overflowed, or the product is NaN, the small part is meaningless.
    finite = f.both(f.abs(high) < 2000.0, power < math.inf)
    corrected = f.select(finite, power * low * math.log(2.0) + power, power)
    return f.select(halved, corrected * 2.0, corrected)


def _log2(f: Formula, x: Lanes) -> Pair:
    """log2 of a positive number as a sum, to some 64 bits; zero, infinity and NaN as `log2` has them."""
    e, m1 = split_exponent(f, x)
    below = m1 + 2.0
    s = m1 / below
    # below = m1 + 2 was rounded: what that lost, and the division's remainder, make the small part of s.
    lost = m1 - (below - 2.0)
    rest = (f.fma(-s, below, m1) - s * lost) / below
    z, z_low = f.two_product(s, s)
    z_low = f.fma(s * 2.0, rest, z_low)
    cubic, cubic_low = _times(f, (z, z_low), _TWO_THIRDS)
    series = z * z * f.polynomial(z, _ATANH)
    inner, inner_low = f.two_sum(cubic, series)
    inner_low = inner_low + cubic_low
    # log(m) = 2s + s * inner
    third, third_low = f.two_product(s, inner)
    third_low = third_low + f.fma(s, inner_low, rest * inner)
    total, total_low = f.two_sum(s * 2.0, third)
    total_low = total_low + (rest * 2.0 + third_low)
    log, log_low = _times(f, (total, total_low), _LOG2_E)
    high, high_low = f.two_sum(e, log)
    high, low = f.two_sum(high, high_low + log_low)
    high = f.select(x.equals(0.0), -math.inf, high)
    high = f.select(x.equals(math.inf), math.inf, high)
    return f.select(f.is_nan(x), x, high), low


def _times(f: Formula, a: Pair, b: tuple[float, float]) -> Pair:
    high, low = f.two_product(a[0], f.lift(b[0]))
    low = low + f.fma(a[1], b[0], a[0] * b[1])
    return f.two_sum(high, low)


def _scale_logarithm(f: Formula, log: Pair, y: Lanes) -> Pair:
    high, low = f.two_product(log[0], y)
    return high, f.fma(log[1], y, low)


def _cases(f: Formula, x: Lanes, y: Lanes, result: Lanes) -> Lanes:
    """Signs, and the powers that do not depend on one of the operands (C11, F.10.4.4)."""
    whole = f.floor(y).equals(y)
    half = y * 0.5
    odd = f.both(whole, f.inverted(f.floor(half).equals(half)))
    huge = f.abs(y) >= math.ldexp(1.0, f.mantissa + 1)  # every one of these is even
    odd = f.both(odd, f.inverted(huge))
    result = f.select(odd, f.copysign(result, x), result)
    broken = f.both(f.both(x < 0.0, x > -math.inf), f.inverted(whole))
    result = f.select(broken, math.nan, result)
    size = f.abs(x)
    # 1^y for any y, and (-1)^(+-inf).
    endless = f.abs(y).equals(math.inf)
    one = f.either(x.equals(1.0), f.both(size.equals(1.0), endless))
    result = f.select(f.is_nan(x), x, result)
    result = f.select(f.is_nan(y), y, result)
    return f.select(f.either(one, y.equals(0.0)), 1.0, result)
