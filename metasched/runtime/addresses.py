"""Addresses of arrays, as compiled code takes them, and arrays at addresses that suit it."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

_POINTER = ctypes.c_void_p
# The first field of an array object, after what every object starts with, is the pointer to its data. Reading it is
# ten times quicker than `ndarray.ctypes.data`.
_DATA = object.__basicsize__
# Bytes of a cache line, and of an array for which aligning takes longer than it saves.
_LINE = 64
_SMALL = 2048


def data_pointer(array: np.ndarray[Any, Any]) -> int:
    """The address of an array's first element."""
    return _POINTER.from_address(id(array) + _DATA).value or 0


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous array; a large one starts on a cache line, so that vectors do not straddle two."""
    size = dtype.itemsize * math.prod(shape)
    if size < _SMALL:
        return np.empty(shape, dtype)
    raw = np.empty(size + _LINE, np.uint8)
    return np.ndarray(shape, dtype, raw, -data_pointer(raw) % _LINE)
