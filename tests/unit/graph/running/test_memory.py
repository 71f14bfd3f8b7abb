"""Memory of networks."""

from __future__ import annotations

import ctypes
import mmap

import pytest

from metasched.graph.running.memory import MappedMemory


@pytest.mark.parametrize("nbytes", [0, 100, mmap.PAGESIZE, 5 * mmap.PAGESIZE + 1])
def test_a_page_that_is_there_lies_on_either_side(nbytes: int) -> None:
    """Vectors without a lane reach before memory and behind it, and take long where no page is."""
    memory = MappedMemory(nbytes, "intermediates")
    inside = -(-max(nbytes, 1) // mmap.PAGESIZE)
    assert memory.address % mmap.PAGESIZE == 0
    assert not memory.bytes.any()  # which reads the pages in
    assert _is_there(memory.address - mmap.PAGESIZE)
    assert _is_there(memory.address + inside * mmap.PAGESIZE)


def _is_there(page: int) -> bool:
    """Whether a page is in memory. Raises OSError where the process has none."""
    found = (ctypes.c_ubyte * 1)()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mincore(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), found):
        raise OSError(ctypes.get_errno(), "no such page")
    return bool(found[0] & 1)
