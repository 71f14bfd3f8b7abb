"""Constants as kernels read them: aligned, the last dimension contiguous.

Those of a model's file lie at any byte of it, and transposed ones are views. They are copied for the kernel that packs
them only, one after another into the same memory: memory that no process has used lately takes longer to get than
to fill.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from metasched.graph.ir import Array
from metasched.graph.running.memory import MappedMemory
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# Sides of the squares in which a matrix is transposed: rows of both sides then stay in the caches. 411 MB take .2 s
# instead of the 1.4 s of NumPy's copy.
_SIDE = 256


@dataclass
class CopyMemory:
    """Memory for copies of the constants of one kernel at a time: a piece for each argument, which grows."""

    _pieces: dict[int, MappedMemory] = field(default_factory=dict)

    def plain_array(self, number: int, array: Array, type_: ValueType) -> Array:
        """A constant, or a copy in the piece of an argument's number, until that is used again."""
        if array.flags.c_contiguous and array.flags.aligned:
            return array
        piece = self._pieces.get(number)
        if piece is None or len(piece.bytes) < array.nbytes:
            piece = self._pieces[number] = MappedMemory(array.nbytes, "constants")
        copy = piece.array(0, type_)
        _copy(array, copy)
        return copy


def _copy(array: Array, to: Array) -> None:
    if array.flags.c_contiguous:
        # As bytes, as NumPy moves elements that are not aligned one by one.
        to.reshape(-1).view(np.uint8)[...] = array.reshape(-1).view(np.uint8)
    elif array.ndim == 2 and array.strides[0] < array.strides[1]:
        rows, columns = array.shape
        for row in range(0, rows, _SIDE):
            for column in range(0, columns, _SIDE):
                here = slice(row, row + _SIDE), slice(column, column + _SIDE)
                to[here] = array[here]
    else:
        to[...] = array
