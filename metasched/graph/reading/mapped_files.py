"""Large weights where they are in their file: pages of it that are read when they are needed, and let go afterwards."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from metasched.graph.ir import Array
from metasched.graph.reading.weights_in_file import LEAST_BYTES, FilePlace, cut
from metasched.support.data_classes import dataclass

__all__ = ["LEAST_BYTES", "MappedFile", "let_pages_go", "mapped_array", "message_of_file", "pages_of"]


@dataclass(frozen=True)
class MappedFile:
    """The weights of a model's file by their keys in its message, as pages that the system reads when they are used.

    The file is not to be cut meanwhile.
    """

    pages: mmap.mmap
    places: Mapping[bytes, FilePlace]

    def weights(self, key: bytes) -> Array | None:
        """The bytes of the weights that a key stands for: not aligned; None for what is no key."""
        place = self.places.get(key)
        return None if place is None else np.frombuffer(self.pages, np.uint8, place.length, place.offset)


def message_of_file(path: Path, message_type: Any) -> tuple[bytes, MappedFile]:
    """A file's message with keys for large weights, and these weights; `message_type` is protobuf's descriptor.

    Raises OSError where the file cannot be read, ValueError where it is empty.
    """
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE)
    found = cut(pages, message_type)
    return found.data, MappedFile(pages, found.places)


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
