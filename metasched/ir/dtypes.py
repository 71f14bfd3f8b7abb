"""Element types of buffers and scalars."""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np


class DType(Enum):
    """An element type; the value is its name in the language."""

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
        return self.value.startswith("f")

    @property
    def is_integer(self) -> bool:
        return self.value[0] in "iu"

    @property
    def is_bool(self) -> bool:
        return self is DType.BOOL

    @property
    def bits(self) -> int:
        return 8 if self.is_bool else int(self.value[1:])

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        name = {"f": "float", "i": "int", "u": "uint"}.get(self.value[0], "")
        return np.dtype(np.bool_ if self.is_bool else f"{name}{self.bits}")


INDEX = DType.I64
