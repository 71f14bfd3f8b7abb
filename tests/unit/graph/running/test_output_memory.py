"""Memory of results is written again when nobody has it any longer."""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.running.output_memory import OutputMemory
from metasched.graph.value_type import ValueType
from metasched.runtime.addresses import data_pointer

LARGE = ValueType(DType.F32, (300, 257))


def test_what_was_let_go_is_given_again() -> None:
    memory = OutputMemory(LARGE)
    first = memory.array()
    assert (first.shape, first.dtype, data_pointer(first) % 64) == (LARGE.shape, np.float32, 0)
    place = data_pointer(first)
    second = memory.array()
    assert data_pointer(second) != place
    del first
    assert data_pointer(memory.array()) == place


@pytest.mark.parametrize("view", [lambda a: a[3:], lambda a: a.reshape(-1), memoryview, lambda a: [a]])
def test_what_somebody_has_a_view_of_is_not(view: object) -> None:
    memory = OutputMemory(LARGE)
    array = memory.array()
    array[:] = 7
    held = view(array)  # type: ignore[operator]
    del array
    others = [memory.array() for _ in range(4)]
    for other in others:
        other[:] = 0
    assert (np.asarray(held) == 7).all()


def test_what_somebody_has_is_not_given_where_calls_count_as_no_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python 3.14 hands an argument on: the count is one less, for what nobody has as for what somebody has."""
    count = sys.getrefcount
    monkeypatch.setattr(sys, "getrefcount", lambda piece: count(piece) - 2)  # its own is one
    spec = importlib.util.find_spec(OutputMemory.__module__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    memory = module.OutputMemory(LARGE)
    first = memory.array()
    place = data_pointer(first)
    assert data_pointer(memory.array()) != place
    del first
    assert data_pointer(memory.array()) == place


def test_no_more_than_two_are_held_for_nobody() -> None:
    memory = OutputMemory(LARGE)
    given = [memory.array() for _ in range(5)]
    rooms = [weakref.ref(array.base) for array in given]
    given.clear()
    gc.collect()
    assert sum(room() is not None for room in rooms) == 2


def test_threads_do_not_get_the_same() -> None:
    memory = OutputMemory(LARGE)
    with ThreadPoolExecutor(4) as pool:
        arrays = list(pool.map(lambda _: memory.array(), range(64)))
    assert len({data_pointer(array) for array in arrays}) == 64


def test_small_ones_are_new() -> None:
    memory = OutputMemory(ValueType(DType.F32, (4, 4)))
    array = memory.array()
    assert array.base is None
