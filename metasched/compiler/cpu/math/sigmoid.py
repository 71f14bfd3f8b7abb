"""sigmoid: 1 / (1 + e^-x), by the exponential of -|x|, which never overflows and keeps the small results."""

from __future__ import annotations

from metasched.compiler.cpu.math.lanes import Formula, Lanes
from metasched.compiler.cpu.math.registry import math_function


@math_function(f32=2.5, f64=2.5)
def sigmoid(f: Formula, x: Lanes) -> Lanes:
    small = f.call("exp", -f.abs(x))
    return f.select(x < 0.0, small, 1.0) / (small + 1.0)
