"""Products of two matrices, as built from schedules."""

from __future__ import annotations

import numpy as np

from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target


def multiplies(sch: Schedule) -> None:
    """The code of a schedule of `C[i, j] = sum[k](A[i, k] * B[k, j])` gives NumPy's product, of whole numbers."""
    shapes = [tuple(int(e.value) for e in b.shape) for b in sch.func.inputs]  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    out = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    build(sch.func, Target.detect())(a, b, out)
    np.testing.assert_array_equal(out, a @ b)
