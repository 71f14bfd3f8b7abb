"""LLVM's spelling of element types, vectors and constants."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from metasched.dtypes import DType, integer_of_size

# What LLVM calls the floats that it computes with, by their bits.
_FLOATS = {32: "float", 64: "double"}


class SSAValue(NamedTuple):
    """An SSA value or a constant: its text, element type, and number of lanes (0 for a scalar)."""

    text: str
    dtype: DType
    width: int = 0

    @property
    def type(self) -> str:
        return type_text(self.dtype, self.width)

    @property
    def typed(self) -> str:
        return f"{type_text(self.dtype, self.width)} {self.text}"


@cache
def type_text(dtype: DType, width: int = 0) -> str:
    """The type of a value in registers."""
    return f"<{width} x {_scalar_text(dtype)}>" if width else _scalar_text(dtype)


def _scalar_text(dtype: DType) -> str:
    """A type of storage is its bits: it is loaded, stored and moved as an integer, and computed in another type (see
    `half_floats`)."""
    if dtype.is_bool:
        return "i1"
    return _FLOATS[dtype.bits] if dtype.is_float and not dtype.is_storage else f"i{dtype.bits}"


@cache
def memory_text(dtype: DType, width: int = 0) -> str:
    """The type of a value in memory, where a bool takes a byte."""
    return type_text(DType.U8 if dtype.is_bool else dtype, width)


@cache
def suffix(dtype: DType, width: int = 0) -> str:
    """How an intrinsic's name spells the type: `f32`, `v16f32`, `v8i64`."""
    is_float = dtype.is_float and not dtype.is_storage
    scalar = f"f{dtype.bits}" if is_float else "i1" if dtype.is_bool else f"i{dtype.bits}"
    return f"v{width}{scalar}" if width else scalar


def splat_text(scalar_type: str, scalar: str, width: int) -> str:
    """A vector constant of equal lanes."""
    return "<" + ", ".join([f"{scalar_type} {scalar}"] * width) + ">"


def constant(value: float | bool, dtype: DType, width: int = 0) -> SSAValue:
    """A constant, the same in every lane; integers wrap to the type and floats round to it."""
    if value == 0 and isinstance(value, float):
        return _new_constant(value, dtype, width)  # 0.0 and -0.0 are equal, so they cannot be remembered apart
    return _cached_constant(value, dtype, width)


def _new_constant(value: float | bool, dtype: DType, width: int) -> SSAValue:
    scalar = _scalar(value, dtype)
    return SSAValue(splat_text(type_text(dtype), scalar, width) if width else scalar, dtype, width)


_cached_constant = lru_cache(maxsize=4096, typed=True)(_new_constant)


def _scalar(value: float | bool, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_storage and dtype.is_integer:
        return str(int(value) % 2**dtype.digits)
    if dtype.is_storage:
        with np.errstate(over="ignore"):
            return str(int(np.array(np.float32(value)).astype(dtype.numpy).view(integer_of_size(dtype.bits).numpy)))
    if dtype.is_float:
        # LLVM writes a float as the bits of the double of the same value.
        with np.errstate(over="ignore"):
            rounded = float(dtype.numpy.type(value))
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    bits = dtype.bits
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def lane_list(lanes: Iterable[int | str]) -> str:
    """The lanes that a shuffle takes, as elements of its mask: numbers, or `poison` where any does."""
    return ", ".join(f"i32 {lane}" for lane in lanes)


@cache
def lane_numbers(dtype: DType, width: int) -> SSAValue:
    """The vector 0, 1, 2, ..."""
    return SSAValue("<" + ", ".join(f"{type_text(dtype)} {n}" for n in range(width)) + ">", dtype, width)


@cache
def first_lanes(active: int, width: int) -> SSAValue:
    """The mask of the first `active` of `width` lanes."""
    text = ", ".join("i1 true" if n < active else "i1 false" for n in range(width))
    return SSAValue(f"<{text}>", DType.BOOL, width)
