"""The inputs of every side, aligned to cache lines, so that chance alignment makes no difference between sides."""

from __future__ import annotations

from typing import Any

import numpy as np

_LINE = 64


def load_aligned(file: str) -> np.ndarray[Any, Any] | float:
    """An array from a .npy file at a multiple of 64 bytes; of no dimensions, the number."""
    stored = np.load(file)
    if stored.shape == ():
        return float(stored)
    memory = np.empty(stored.nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    array: np.ndarray[Any, Any] = memory[start : start + stored.nbytes].view(stored.dtype).reshape(stored.shape)
    array[...] = stored
    return array
