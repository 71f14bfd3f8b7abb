"""SHA-256 of large contents, by several threads: one hashes 1 to 2 GB a second, and reading takes no longer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

# What a thread hashes at a time.
_PIECE = 16 << 20
_MOST_THREADS = 4
_IGNORE_PIECE: Callable[[memoryview], None] = lambda _: None  # noqa: E731 -- a default with a type


def digest(content: memoryview, fill: Callable[[memoryview], None] = _IGNORE_PIECE) -> str:
    """The SHA-256 of the SHA-256 of each piece of a content, one after another, and of its length.

    `fill` is called with each piece before it is hashed, in order: it may put there what is to be.
    """
    pieces = _pieces(content)
    threads = min(len(pieces), len(os.sched_getaffinity(0)), _MOST_THREADS)
    with ThreadPoolExecutor(max(threads, 1), "metasched-digest") as pool:
        hashes = []
        for piece in pieces:
            fill(piece)
            hashes.append(pool.submit(_hash_piece, piece))
        return _join_hashes(len(content), [one.result() for one in hashes])


def digest_in_this_thread(content: memoryview) -> str:
    """The digest that `digest` gives, without other threads, of which there may be none any more while Python ends."""
    return _join_hashes(len(content), [_hash_piece(piece) for piece in _pieces(content)])


def _pieces(content: memoryview) -> list[memoryview]:
    return [content[at : at + _PIECE] for at in range(0, len(content), _PIECE)]


def _hash_piece(piece: memoryview) -> bytes:
    return hashlib.sha256(piece).digest()


def _join_hashes(length: int, hashes: list[bytes]) -> str:
    return hashlib.sha256(length.to_bytes(8, "little") + b"".join(hashes)).hexdigest()
