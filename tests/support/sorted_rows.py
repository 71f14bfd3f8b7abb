"""The order of rows, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def places_in_order(x: Any, k: int, axis: int, largest: bool) -> Any:
    """Places of the first elements, of which NaN is the largest, and of equal ones that of the lower place first."""
    nan, keys = x != x, np.where(x != x, 0, x.astype(np.float64))
    keys = -keys if largest else keys
    order = np.lexsort((keys, ~nan if largest else nan), axis=axis)
    return order.take(range(k), axis)
