"""Random reductions whose results are read at several places each, so that iterations of what reads them share some.

Where such a reduction is computed under a loop of its reader, neighbouring iterations compute the same elements.
"""

from __future__ import annotations

import numpy as np

from tests.property.fuzz.fuzz_programs import Source, pick

_TYPES = ("f32", "f32", "f64", "i32", "i64")
_REDUCERS = ("sum", "sum", "sum", "prod", "max", "min")


def windows(rng: np.random.Generator) -> Source:
    """Windows over what reductions give along rows, which are of one element or of several."""
    dtype, reducer = pick(rng, _TYPES), pick(rng, _REDUCERS)
    sizes = {"N": int(rng.integers(2, 20)), "M": int(rng.integers(1, 6)), "K": int(rng.integers(1, 6))}
    step, reach = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    columns, own, at = (", M", "i, j", "y, j") if rng.random() < 0.5 else ("", "i", "y")
    if not columns:
        del sizes["M"]
    taps = sorted({0, int(rng.integers(0, reach + 1)), reach})
    near = " + ".join(f"B[{at.replace('y', f'y*{step} + {tap}')}] * {n + 1}" for n, tap in enumerate(taps))
    return Source(
        f"program windows[{', '.join(f'{name}={size}' for name, size in sizes.items())}]"
        f"(A: {dtype}[N*{step} + {reach}{columns}, K]) -> C: {dtype}[N{columns}]:\n"
        f"    rows: B[{own}] = {reducer}[k](A[{own}, k])\n"
        f"    near: C[{at}] = {near}\n",
        tuple(sizes.items()),
    )
