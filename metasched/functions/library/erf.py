"""erf, for positive x, from erfc(x) = e^-q(x).

In single precision there is one formula, erf(x) = -expm1(-q(x)), with a polynomial for q(x) / x. In double precision
it is a polynomial times x below one, and above, one less e^(-x^2) times a polynomial in (x - 3) / (x + 3).
"""

from __future__ import annotations

import math

from metasched.functions.declaration import math_function, number
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.exp import SINGLE, reduce_argument

# -log(erfc(x)) / x - 1, from 0 to 3.95
_SINGLE = (
    0.12837917165682056,
    0.6366193807473276,
    0.10277783975775266,
    -0.019153094457627542,
    -0.0001603441516066661,
    0.0016669788828953566,
    -0.0006328116921991936,
    0.00011763454114495033,
    -9.255543045526861e-06,
)
# For small x in double precision: erf(x) / x - 1, in x^2
NEAR_ZERO = (
    0.1283791670955126,
    -0.37612638903183754,
    0.1128379167095512,
    -0.02686617064512984,
    0.0052239776254232985,
    -0.000854832702193483,
    0.00012055332902888736,
    -1.4925647567519332e-05,
    1.6462045441468418e-06,
    -1.6364642158167616e-07,
    1.4792401209404813e-08,
    -1.216456005728345e-09,
    8.709045129053106e-11,
    -4.230945824295338e-12,
)
# For large x: erfc(x) e^(x^2)
_TAIL_DOUBLE = (
    0.17900115118138996,
    -0.3262335600430372,
    0.24560380171233193,
    -0.1501159365007832,
    0.07166583719774912,
    -0.02439249931851318,
    0.004269136347500596,
    0.0007077464503100413,
    -0.000597062350142508,
    4.525465364626433e-05,
    6.406177754203172e-05,
    -1.2848453970975886e-05,
    -8.007606751362244e-06,
    2.022548566774174e-06,
    1.2788558712579627e-06,
)
# Where the formulas meet.
_SEAM = 1.0
# From where on the result rounds to one, by whether the type is f64.
_SATURATION_START = {False: 3.95, True: 6.0}


@math_function(
    f32=2.1,
    f64=1.1,
    cost=32.0,
    evaluate=math.erf,
    numpy=lambda x: math.erf(float(x)),
    numba="math.erf({0})",
    slopes=lambda _: (number(1.13),),
)
def erf(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    clamped = f.select(size > _SATURATION_START[f.is_double], _SATURATION_START[f.is_double], size)
    return f.copysign(_double(f, size, clamped) if f.is_double else _single(f, clamped), x)


def _single(f: Formula, x: Lanes) -> Lanes:
    n, r = reduce_argument(f, -(x * _evaluate_halves(f, x, _SINGLE) + x))
    # With e^r - 1, not e^r: for small x nothing is lost, n being zero.
    less = r * r * f.polynomial(r, SINGLE) + r
    power = f.power_of_two(n)
    return (1.0 - power) - power * less


def _evaluate_halves(f: Formula, x: Lanes, coefficients: tuple[float, ...]) -> Lanes:
    """A polynomial as its even and its odd half, which are independent."""
    square = x * x
    return f.polynomial(square, coefficients[::2]) + x * f.polynomial(square, coefficients[1::2])


def _double(f: Formula, x: Lanes, clamped: Lanes) -> Lanes:
    near = x * f.polynomial(x * x, NEAR_ZERO) + x
    s = (clamped - 3.0) / (clamped + 3.0)
    left = f.call("exp", -(clamped * clamped)) * f.polynomial(s, _TAIL_DOUBLE)
    return f.select(x < _SEAM, near, 1.0 - left)
