"""The loops one writes first, in Numba: `parallel`, `fastmath`, the outermost loop a `prange`, the sum innermost."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange
from numpy.typing import NDArray

Array = NDArray[Any]
njit = numba.njit(parallel=True, fastmath=True)


@njit
def dense_relu_ijk(a: Array, b: Array) -> Array:
    d = np.empty((a.shape[0], b.shape[1]), np.float32)
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            acc = np.float32(0)
            for k in range(a.shape[1]):
                acc += a[i, k] * b[k, j]
            d[i, j] = max(acc, np.float32(0))
    return d


@njit
def dense_relu_ikj(a: Array, b: Array) -> Array:
    """The order that suits the caches: rows of `b` are read as they lie."""
    d = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in prange(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                d[i, j] += a[i, k] * b[k, j]
        for j in range(b.shape[1]):
            d[i, j] = max(d[i, j], np.float32(0))
    return d


@njit
def conv2d(x: Array, kernel: Array) -> Array:
    _, height, width, channels = x.shape
    y = np.empty((1, height, width, kernel.shape[3]), np.float32)
    for h in prange(height):
        for w in range(width):
            for o in range(kernel.shape[3]):
                acc = np.float32(0)
                for r in range(3):
                    for s in range(3):
                        if 1 <= h + r <= height and 1 <= w + s <= width:
                            for c in range(channels):
                                acc += x[0, h + r - 1, w + s - 1, c] * kernel[r, s, c, o]
                y[0, h, w, o] = acc
    return y


@njit
def relu_pad_matmul(a: Array, d: Array) -> Array:
    e = np.empty((a.shape[0], d.shape[1]), np.float32)
    for i in prange(a.shape[0]):
        for j in range(d.shape[1]):
            acc = np.float32(0)
            for k in range(a.shape[1]):
                c = max(a[i, k], np.float32(0)) if k < 400 else np.float32(0)
                acc += c * d[k, j]
            e[i, j] = acc
    return e
