"""Conversions and arithmetic that Numba lacks, for the reference: `to_DTYPE(x)`, `add_i64(a, b)`.

Numba has no arithmetic on f16 and no bf16 at all, so the reference holds both as f32 numbers that are exact in them. Of
signed integers it tells LLVM that sums and products do not overflow, so those that may are computed without a sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.dtypes import DType, float_format


@cache
def conversions() -> Mapping[str, Any]:
    """The conversions by name, compiled at their first use."""
    import numba

    found: dict[str, Callable[..., Any]] = {f"to_{dtype}": _to_half(dtype) for dtype in DType if dtype.is_half}
    found |= {f"to_{dtype}": _to_integer(dtype) for dtype in DType if dtype.is_integer}
    found |= WRAPPING
    return MappingProxyType({name: numba.njit(error_model="numpy")(function) for name, function in found.items()})


def _to_half(dtype: DType) -> Callable[[Any], Any]:
    """The f32 number nearest to a value that is exact in a type of storage, ties to even.

    Its digits are the first of an f32's, which are rounded to them as bits. Below the smallest normal number the step
    is the same everywhere, and adding a number whose last digit is worth that step rounds to it.
    """
    kind = float_format(dtype)
    dropped = float_format(DType.F32).significand - kind.significand
    shift, half = np.uint32(dropped), np.uint32(2 ** (dropped - 1) - 1)
    mask = np.uint32(2**32 - 2**dropped)
    smallest = np.float32(dtype.smallest_normal)
    coarse = np.float32(2.0 ** (kind.smallest_exponent + dropped))
    with np.errstate(over="ignore"):
        too_large = np.float32(2.0 ** (2 - kind.smallest_exponent))

    def convert(value: Any) -> Any:
        single = np.float32(value)
        if math.isnan(single):
            return single
        if abs(single) < smallest:
            rounded = np.float32(abs(single) + coarse) - coarse
            return np.float32(math.copysign(rounded, single))
        bits = single.view(np.uint32)
        bits = (bits + half + ((bits >> shift) & np.uint32(1))) & mask
        rounded = np.uint32(bits).view(np.float32)
        if abs(rounded) >= too_large:
            return np.float32(np.inf) if rounded > 0 else np.float32(-np.inf)
        return rounded

    return convert


def _to_integer(dtype: DType) -> Callable[[Any], Any]:
    """A float to an integer: towards zero, to the nearest end of the range where it is outside, and NaN to 0."""
    limits = np.iinfo(dtype.numpy)
    kind = dtype.numpy.type
    lowest, highest = kind(limits.min), kind(limits.max)
    low, high = float(limits.min), float(limits.max)

    def convert(value: Any) -> Any:
        number = np.float64(value)
        if math.isnan(number):
            return kind(0)
        if number >= high:
            return highest
        if number <= low:
            return lowest
        return kind(np.int64(number))

    return convert


def _add(a: Any, b: Any) -> Any:
    return np.int64(np.uint64(a) + np.uint64(b))


def _sub(a: Any, b: Any) -> Any:
    return np.int64(np.uint64(a) - np.uint64(b))


def _mul(a: Any, b: Any) -> Any:
    return np.int64(np.uint64(a) * np.uint64(b))


def _floordiv(a: Any, b: Any) -> Any:
    # The lowest number over -1 would end the process.
    if b == -1:
        return np.int64(np.uint64(0) - np.uint64(a))
    return np.int64(0) if b == 0 else np.int64(a) // np.int64(b)


def _mod(a: Any, b: Any) -> Any:
    return np.int64(0) if b in (-1, 0) else np.int64(a) % np.int64(b)


WRAPPING: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"add_i64": _add, "sub_i64": _sub, "mul_i64": _mul, "floordiv_i64": _floordiv, "mod_i64": _mod}
)
