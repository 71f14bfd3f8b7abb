"""log2: the exponent, and the logarithm of the mantissa over ln(2). Powers of two give whole numbers."""

from __future__ import annotations

import math

import numpy as np

from metasched.functions.declaration import math_function, number, size
from metasched.functions.formula import Formula, Lanes
from metasched.functions.library.log import edges, log_of_one_plus, split_exponent

# log2(e) as a sum of doubles.
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)


@math_function(
    f32=1.0,
    f64=1.0,
    cost=42.0,
    evaluate=math.log2,
    numpy=np.log2,
    numba="math.log({0}) / math.log(2.0)",
    slopes=lambda x: (number(1.5) / size(x),),
)
def log2(f: Formula, x: Lanes) -> Lanes:
    e, m1 = split_exponent(f, x)
    large, small = log_of_one_plus(f, m1)
    # Only the leading bits of the larger part, so that its product with the leading bits of the constant is exact.
    mask = -(1 << (27 if f.is_double else 12))
    total = large + small
    leading = f.from_bits(f.bits(total) & mask)
    rest = (large - leading) + small
    high, low = f.split(_LOG2_E, 26 if f.is_double else 12)
    product = leading * high
    return edges(f, x, e + (product + (leading * low + rest * (high + low))))
