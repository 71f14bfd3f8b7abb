"""cos: a quarter of a turn ahead of sin."""

from __future__ import annotations

from metasched.compiler.cpu.math.lanes import Formula, Lanes
from metasched.compiler.cpu.math.registry import math_function
from metasched.compiler.cpu.math.sin import quadrant


@math_function(f32=1.7, f64=1.7)
def cos(f: Formula, x: Lanes) -> Lanes:
    return quadrant(f, x, "cos", 1)
