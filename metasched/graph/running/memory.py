"""Memory of networks: pages of the system's, zero until they are written, in large pages where it has them.

Before a piece and behind it is a page of nothing. Vectors all of whose lanes are left out reach there, such as those of
the row before the first: where no page is, CPUs ask for each lane whether it would fail, in hundreds of cycles.
"""

from __future__ import annotations

import mmap

import numpy as np
import psutil

from metasched.graph.errors import NetworkError
from metasched.graph.ir import Array
from metasched.graph.value_type import ValueType
from metasched.runtime.addresses import data_pointer

# From this size on, large pages save more than their rounding takes.
_LARGE_BYTES = 4 << 20
# The share of the machine's memory that a network may take.
_SHARE = 0.9


def require_memory(nbytes: int, what: str) -> None:
    """Raise NetworkError where `what` takes more than this machine has."""
    have = int(psutil.virtual_memory().total * _SHARE)
    if nbytes > have:
        raise NetworkError(f"the network's {what} take {nbytes} bytes, and this machine has {have} for them")


class MappedMemory:
    """A piece of memory that starts on a page, between two others. It is freed with the last array that is of it."""

    def __init__(self, nbytes: int, what: str) -> None:
        """Raises NetworkError where the machine has not so much; `what` is what it is for."""
        require_memory(nbytes, what)
        try:
            pages = mmap.mmap(-1, max(nbytes, 1) + 2 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise NetworkError(
                f"the network's {what} take {nbytes} bytes, which the system refuses: {error}"
            ) from error
        if nbytes >= _LARGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)
        pages[0] = pages[-1] = 0  # a page is there from the first byte written on
        self.bytes = np.frombuffer(pages, np.uint8, max(nbytes, 1), mmap.PAGESIZE)
        self.address = data_pointer(self.bytes)

    def array(self, offset: int, type_: ValueType) -> Array:
        """The value of a type at an offset, in place."""
        return np.ndarray(type_.shape, type_.dtype.numpy, self.bytes, offset)
