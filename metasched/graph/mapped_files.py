"""Large weights where they are in their file: pages of it that are read when they are needed, and let go afterwards."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from metasched.graph.ir import Array

# Smaller arrays are copied.
LEAST_BYTES = 1 << 16
# So many bytes of an array are looked for in a file; the others are compared.
_NEEDLE = 256


class MappedFile:
    """The bytes of a file, as pages that the system reads when they are used. The file is not to be cut meanwhile."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
        self._bytes = np.frombuffer(self._pages, np.uint8)
        self._at = 0

    def array(self, dtype: np.dtype[Any], count: int, offset: int) -> Array:
        """So many elements from an offset on: read-only, and not aligned where the file's are not."""
        return np.frombuffer(self._pages, dtype, count, offset)

    def find(self, data: bytes) -> int | None:
        """Where the file has these bytes, beginning behind what was found last; None where it has not."""
        found = self._found(data, self._at)
        return self._found(data, 0) if found is None and self._at else found

    def _found(self, data: bytes, at: int) -> int | None:
        while (at := self._pages.find(data[:_NEEDLE], at)) >= 0:
            if np.array_equal(self._bytes[at : at + len(data)], np.frombuffer(data, np.uint8)):
                self._at = at + len(data)
                return at
            at += 1
        return None


def mapped_array(path: Path, dtype: np.dtype[Any], count: int, offset: int) -> Array:
    """So many elements of a file from an offset on, as `MappedFile.array` gives them; only they are mapped."""
    return np.memmap(path, dtype, "r", offset, (count,)).view(np.ndarray)


def let_pages_go(arrays: Iterable[Array]) -> None:
    """Give the memory of mapped files that arrays are of back to the system; they are read again when they are used."""
    files = {id(pages): pages for array in arrays if (pages := pages_of(array)) is not None}
    for pages in files.values():
        pages.madvise(mmap.MADV_DONTNEED)


def pages_of(array: Array) -> mmap.mmap | None:
    """The pages of a file that an array is of; None for one in memory of its own."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) and not array.flags.writeable else None
