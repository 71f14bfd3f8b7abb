"""tanh: (e^2x - 1) / (e^2x + 1), by expm1, so that small arguments lose nothing."""

from __future__ import annotations

from metasched.compiler.cpu.math.lanes import Formula, Lanes
from metasched.compiler.cpu.math.registry import math_function

# From here on the result rounds to one.
_LIMIT = {False: 9.25, True: 19.5}


@math_function(f32=2.5, f64=2.7)
def tanh(f: Formula, x: Lanes) -> Lanes:
    size = f.abs(x)
    limit = _LIMIT[f.is_double]
    grown = f.call("expm1", f.select(size > limit, limit, size) * 2.0)
    return f.copysign(grown / (grown + 2.0), x)
