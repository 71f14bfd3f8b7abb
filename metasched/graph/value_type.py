"""Element types and shapes of a network's values."""

from __future__ import annotations

import math
from functools import lru_cache

from metasched.dtypes import DType
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Buffer
from metasched.ir.program import Program
from metasched.support.by_identity import remembered_by_identity
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class ValueType:
    """Element type and shape of a value; a scalar has the shape ()."""

    dtype: DType
    shape: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@remembered_by_identity
def types_of(program: Program) -> tuple[tuple[ValueType, ...], tuple[ValueType, ...]]:
    """The types of a program's inputs and outputs, whose sizes are numbers."""
    return tuple(map(type_of, program.inputs)), tuple(map(type_of, program.outputs))


@lru_cache(maxsize=1 << 14)
def type_of(buffer: Buffer) -> ValueType:
    """The type of a buffer of a program whose sizes are numbers."""
    shape = tuple(as_int(extent) for extent in buffer.shape)
    assert all(extent is not None for extent in shape), buffer
    return ValueType(buffer.dtype, tuple(extent for extent in shape if extent is not None))
