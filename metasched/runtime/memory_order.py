"""How an array lies in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def memory_order(array: Array) -> tuple[int, ...] | None:
    """The dimensions from the outermost in memory to the innermost, if in that order the array is C-contiguous: (1, 0)
    for a transposed matrix. None for a part of a larger array, a reversed or a broadcast one.
    """
    order = tuple(sorted(range(array.ndim), key=lambda d: array.strides[d], reverse=True))
    return order if array.transpose(order).flags.c_contiguous else None
