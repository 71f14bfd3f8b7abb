"""Weights that networks share, while one of them is compiled and another is written to disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from metasched.graph.running.memory import MappedMemory
from metasched.graph.running.weights import WeightStore


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, memory: store.offsets_in_memory(memory) == {"one": 0, "other": 64},
        lambda store, memory: store.memory_of_file("hash") is memory,
        lambda store, memory: store.nbytes == len(memory.bytes),
    ],
    ids=["offsets_in_memory", "memory_of_file", "nbytes"],
)
def test_who_asks_beside_packing_gets_the_whole_of_it(ask: Callable[[WeightStore, MappedMemory], bool]) -> None:
    store, memory = WeightStore(), MappedMemory(128, "weights")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(ask(store, memory)))
    with store.lock:
        store.put("one", memory, 0)
        thread.start()
        thread.join(0.05)
        assert not found, "it looked through what is being changed"
        store.put("other", memory, 64)
        store.is_in_file(memory, "key", "hash")
    thread.join()
    assert found == [True]
