"""Addresses of arrays, as compiled code takes them, and arrays at addresses that suit it."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from metasched.target import CACHE_LINE

_POINTER = ctypes.c_void_p
# The first field of an array object, after what every object starts with, is the pointer to its data. Reading it is
# ten times quicker than `ndarray.ctypes.data`.
_DATA_POINTER_OFFSET = object.__basicsize__
# Bytes of an array for which aligning takes longer than it saves.
_LEAST_ALIGNED_BYTES = 2048


def data_pointer(array: np.ndarray[Any, Any]) -> int:
    """The address of an array's first element."""
    return _POINTER.from_address(id(array) + _DATA_POINTER_OFFSET).value or 0


def pointer_place(array: np.ndarray[Any, Any]) -> int:
    """Where the address of an array's first element is, as long as the array is there."""
    return id(array) + _DATA_POINTER_OFFSET


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous array; a large one starts on a cache line, so that vectors do not straddle two."""
    size = dtype.itemsize * math.prod(shape)
    return (
        np.empty(shape, dtype)
        if size < _LEAST_ALIGNED_BYTES
        else array_at_cache_line(cache_line_buffer(size), shape, dtype)
    )


def cache_line_buffer(nbytes: int) -> np.ndarray[Any, Any]:
    """Uninitialised memory for an array of so many bytes that starts on a cache line."""
    return np.empty(nbytes + CACHE_LINE, np.uint8)


def array_at_cache_line(
    room: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """The array that starts on the first cache line of a piece of memory, and keeps it."""
    return np.ndarray(shape, dtype, room, -data_pointer(room) % CACHE_LINE)
