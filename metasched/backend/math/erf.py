"""erf: a polynomial times x below one; above, one less erfc.

In single precision erfc(x) = e^-q(x) with a polynomial for q; in double precision it is e^(-x^2) times a polynomial in
(x - 3) / (x + 3).
"""

from __future__ import annotations

from metasched.backend.math.exp import SINGLE, reduced
from metasched.backend.math.lanes import Formula, Lanes
from metasched.backend.math.registry import math_function

# For small x: erf(x) / x - 1, in x^2
_SINGLE = (
    0.1283791667892225,
    -0.37612635193967825,
    0.11283718049593898,
    -0.02686066479113085,
    0.005204226693752301,
    -0.0008179632180888265,
    8.529401322836862e-05,
)
_DOUBLE = (
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
# For large x: -log(erfc(x))
_TAIL_SINGLE = (
    -0.00031853966241225597,
    1.1302310552231873,
    0.6318239181057594,
    0.1100871664955004,
    -0.026427637153529877,
    0.004762625832512992,
    -0.0005975857702302331,
    4.616385862524457e-05,
    -1.6430636556906173e-06,
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
# Where the formulas meet, and where the result rounds to one.
_SEAM = {False: 0.9, True: 1.0}
_LIMIT = {False: 4.0, True: 6.0}


@math_function(f32=1.4, f64=1.1)
def erf(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    clamped = f.select(size > _LIMIT[f.is_double], _LIMIT[f.is_double], size)
    near = size * f.polynomial(x * x, _DOUBLE if f.is_double else _SINGLE) + size
    if f.is_double:
        s = (clamped - 3.0) / (clamped + 3.0)
        left = f.call("exp", -(clamped * clamped)) * f.polynomial(s, _TAIL_DOUBLE)
    else:
        left = _exp_of_moderate(f, -_in_halves(f, clamped, _TAIL_SINGLE))
    return f.copysign(f.select(size < _SEAM[f.is_double], near, 1.0 - left), x)


def _in_halves(f: Formula, x: Lanes, coefficients: tuple[float, ...]) -> Lanes:
    """A polynomial as its even and its odd half, which do not wait for one another."""
    square = x * x
    return f.polynomial(square, coefficients[::2]) + x * f.polynomial(square, coefficients[1::2])


def _exp_of_moderate(f: Formula, x: Lanes) -> Lanes:
    """e^x where neither the result nor 2^n is beyond the normal numbers."""
    n, r = reduced(f, x)
    return (r * r * f.polynomial(r, SINGLE) + r + 1.0) * f.power_of_two(n)
