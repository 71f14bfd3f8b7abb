"""Large files are written beside their maker's work, in order."""

from __future__ import annotations

import threading

from metasched.graph.saved.large_writes import LargeWrites

LARGE = 1 << 30


def test_what_is_small_is_written_at_once_and_after_what_is_large() -> None:
    writes, done, go = LargeWrites(), list[str](), threading.Event()

    def large() -> None:
        go.wait(10)
        done.append("large")

    writes.run(LARGE, large)
    assert not done
    go.set()
    writes.run(1, lambda: done.append("small"))
    assert done == ["large", "small"]
    writes.run(LARGE, lambda: done.append("last"))
    writes.wait()
    assert done[-1] == "last"
