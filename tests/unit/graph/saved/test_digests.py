"""Digests of large contents: of all of it, however many threads take part."""

from __future__ import annotations

import pytest

from metasched.graph.saved import digests
from metasched.graph.saved.digests import digest, digest_in_this_thread


@pytest.mark.parametrize("cpus", [1, 3])
def test_every_byte_and_the_length_count(cpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_PIECE", 8)
    monkeypatch.setattr(digests.os, "sched_getaffinity", lambda _: set(range(cpus)))
    content = bytes(range(30))
    seen = {digest(memoryview(content)), digest(memoryview(content[:-1])), digest(memoryview(b""))}
    seen |= {digest(memoryview(content[:n] + b"\xff" + content[n + 1 :])) for n in (0, 7, 8, 29)}
    seen.add(digest(memoryview(content[8:] + content[:8])))
    assert len(seen) == 8
    monkeypatch.setattr(digests.os, "sched_getaffinity", lambda _: {0, 1})
    assert digest(memoryview(content)) in seen
    assert digest_in_this_thread(memoryview(content)) == digest(memoryview(content))


def test_pieces_are_filled_before_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_PIECE", 4)
    content, room = bytes(range(10)), bytearray(10)
    given = iter(content[at : at + 4] for at in range(0, 10, 4))

    def fill(piece: memoryview) -> None:
        piece[:] = next(given)

    assert digest(memoryview(room), fill) == digest(memoryview(content))
    assert room == content
