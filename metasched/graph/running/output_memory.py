"""Memory of results: what a caller has let go is written again.

The system gives a large array as pages that it clears when they are first written, which takes longer than writing
them, and takes them back when the array is freed. So a network keeps the last arrays of each result, and writes those
again that nobody has any longer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from metasched.graph.ir import Array
from metasched.graph.value_type import ValueType
from metasched.runtime.addresses import aligned_empty, array_at_cache_line, cache_line_buffer
from metasched.runtime.child_locks import lock_of_calls

# What is smaller comes from memory that the process has: C libraries take pages from the system for more than this.
_LARGE_BYTES = 128 << 10
# While a caller reads what one call gave, or hands it to the next, that one writes another.
_MOST_KEPT_PIECES = 2


def _count_references(pieces: Sequence[object]) -> list[int]:
    """How many references there are to each piece, with those of this function, which depend on Python's version."""
    return [sys.getrefcount(piece) for piece in pieces]


# How many references there are to what only a list has.
(_OURS,) = _count_references([object()])


class OutputMemory:
    """Where the arrays of one result are. At most two that nobody has are held for the next call."""

    def __init__(self, type_: ValueType) -> None:
        self._type = type_
        self._shape, self._dtype, self._is_large = type_.shape, type_.dtype.numpy, type_.nbytes >= _LARGE_BYTES
        self._kept: list[Array] = []
        self._lock = lock_of_calls()

    def array(self) -> Array:
        """An array that nobody else has, nor a view of it, with anything in it. Takes about a microsecond."""
        shape, dtype = self._shape, self._dtype
        if not self._is_large:
            return aligned_empty(shape, dtype)
        with self._lock:
            counts = _count_references(self._kept)
            if _OURS in counts:
                return array_at_cache_line(self._kept[counts.index(_OURS)], shape, dtype)
            room = cache_line_buffer(self._type.nbytes)
            self._kept = [*self._kept, room][-_MOST_KEPT_PIECES:]
            return array_at_cache_line(room, shape, dtype)
