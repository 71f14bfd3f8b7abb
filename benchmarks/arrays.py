"""The inputs of every side, aligned to cache lines, so that chance alignment makes no difference between sides."""

from __future__ import annotations

from typing import Any

import numpy as np

_LINE = 64


def load_aligned(file: str, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any] | float:
    """An array from a .npy file at a multiple of 64 bytes, as elements of `dtype` if one is given; of no dimensions,
    the number.
    """
    stored = np.load(file)
    if stored.shape == ():
        return float(stored)
    if dtype is not None:
        stored = stored.astype(dtype)
    memory = np.empty(stored.nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    array: np.ndarray[Any, Any] = memory[start : start + stored.nbytes].view(stored.dtype).reshape(stored.shape)
    array[...] = stored
    return array
