"""Elements between those of a plane, by NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def between(x: Array, place: tuple[float, float]) -> list[Any]:
    """The four elements of a plane around a place, each times its weight; what is outside is zero."""
    out = []
    for corner in product((0, 1), (0, 1)):
        at = [int(np.floor(p)) + c for p, c in zip(place, corner, strict=True)]
        weight = np.prod([1 - abs(p - a) for p, a in zip(place, at, strict=True)])
        inside = all(0 <= a < n for a, n in zip(at, x.shape[-2:], strict=True))
        out.append(weight * (x[..., at[0], at[1]] if inside else np.zeros(x.shape[:-2])))
    return out
