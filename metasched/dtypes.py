"""Element types of buffers and scalars."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

_HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


class DType(Enum):
    """An element type; the value is its name in the language.

    `f16` (IEEE 754 binary16) and `bf16` (the upper half of an f32) are types of storage: values are read as f32,
    computed in f32, and rounded to nearest, ties to even, where they are stored or cast.
    """

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"

    def __str__(self) -> str:
        return self.value

    @property
    def is_float(self) -> bool:
        return self.is_half or self.value.startswith("f")

    @property
    def is_half(self) -> bool:
        """Whether it is a type of storage only."""
        return self is DType.F16 or self is DType.BF16

    @property
    def is_integer(self) -> bool:
        return self.value[0] in "iu"

    @property
    def is_bool(self) -> bool:
        return self is DType.BOOL

    @property
    def compute(self) -> DType:
        """What values of this type are computed in: f32 for f16 and bf16, the type itself for the others."""
        return DType.F32 if self.is_half else self

    @property
    def bits(self) -> int:
        return 8 if self.is_bool else int(self.value.lstrip("bfiu"))

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def significand(self) -> int:
        """The digits of a float's significand, in bits: integers up to 2**significand are exact."""
        return {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}[self.value]

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        if self.value in _HALVES:
            half: np.dtype[Any] = np.dtype(_HALVES[self.value])
            return half
        name = {"f": "float", "i": "int", "u": "uint"}.get(self.value[0], "")
        return np.dtype(np.bool_ if self.is_bool else f"{name}{self.bits}")

    @property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next float."""
        return 2.0**-self.significand

    @cached_property
    def smallest_normal(self) -> float:
        """The smallest positive float that has all digits."""
        return 2.0 ** {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}[self.value]


INDEX = DType.I64


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if dtype.value.startswith("u"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def fits(dtype: DType, lo: float, hi: float) -> bool:
    """Whether an integer type holds everything from `lo` to `hi`."""
    lowest, highest = integer_range(dtype)
    return lowest <= lo and hi <= highest


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether an array's elements are floats; NumPy does not count bf16 among them."""
    return dtype.kind == "f" or dtype == DType.BF16.numpy
