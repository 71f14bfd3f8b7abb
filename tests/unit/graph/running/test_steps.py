"""Tables that compiled code runs: what is done between kernels, and loops."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from metasched.graph.loop_node import ENDLESS
from metasched.graph.running.execution_plan import RootOffset, TableAction
from metasched.graph.running.steps import StepTable, TableEntry
from metasched.runtime.addresses import data_pointer
from metasched.target import Target

A, B = 0, 1
MOVING, OTHER = 2, 3


class Memory:
    """Two pieces of 64-bit integers, and two roots that a table moves."""

    def __init__(self) -> None:
        self.first = np.arange(32, dtype=np.int64)
        self.second = np.full(32, -1, np.int64)

    def run(self, entries: list[TableEntry], most: int = ENDLESS) -> tuple[Any, Any]:
        """Run a table; returns how often each entry ran, and how far from the first piece the roots are that move."""
        addresses = [data_pointer(self.first), data_pointer(self.second), 0, 0]
        roots = (ctypes.c_int64 * 4)(*addresses)
        times, runs = ((ctypes.c_int64 * len(entries))() for _ in range(2))
        table = StepTable(entries, Target.detect(threads=1))
        assert table.run_timed(roots, times, runs, most) == 0
        return list(runs), [roots[n] - addresses[0] for n in (MOVING, OTHER)]


def at(root: int, element: int = 0) -> RootOffset:
    return RootOffset(root, 8 * element)


def entry(action: TableAction, *places: RootOffset, numbers: tuple[int, ...] = ()) -> TableEntry:
    return TableEntry(action, places, numbers)


def loop(count: int, most: int, goes_on: RootOffset) -> list[TableEntry]:
    """A loop whose limit is 10, whose first step is always taken, that counts in `second`."""
    return [
        entry(TableAction.STORE, at(B, 20), numbers=(10,)),
        entry(TableAction.STORE, at(B, 21), numbers=(1,)),
        entry(TableAction.LOOP, at(B, 20), at(B, 21), goes_on, at(B, 22), at(B, 23), numbers=(count, most)),
    ]


def test_places_are_copied_stored_pointed_at_and_changed_for_one_another() -> None:
    memory = Memory()
    _, moved = memory.run(
        [
            entry(TableAction.COPY, at(B, 1), at(A, 3), numbers=(16,)),
            entry(TableAction.STORE, at(B, 4), numbers=(-7,)),
            entry(TableAction.POINT, at(A, 5), numbers=(MOVING,)),
            entry(TableAction.POINT, at(A, 6), numbers=(OTHER,)),
            entry(TableAction.SWAP, numbers=(MOVING, OTHER)),
            entry(TableAction.ADVANCE, numbers=(MOVING, -16)),
            entry(TableAction.COPY, at(B, 6), at(MOVING), numbers=(8,)),
        ]
    )
    assert memory.second[:8].tolist() == [-1, 3, 4, -1, -7, -1, 4, -1]
    assert moved == [8 * 4, 8 * 5]


@pytest.mark.parametrize(("most", "allowed", "steps"), [(100, ENDLESS, 10), (4, ENDLESS, 4), (100, 3, 3)])
def test_a_loop_goes_through_elements_for_as_many_steps_as_there_are(most: int, allowed: int, steps: int) -> None:
    memory = Memory()
    body = [
        entry(TableAction.COPY, at(OTHER), at(MOVING), numbers=(8,)),
        entry(TableAction.ADVANCE, numbers=(MOVING, 16)),
        entry(TableAction.ADVANCE, numbers=(OTHER, 8)),
    ]
    before = [
        entry(TableAction.POINT, at(A), numbers=(MOVING,)),
        entry(TableAction.POINT, at(B), numbers=(OTHER,)),
    ]
    runs, _ = memory.run([*before, *loop(len(body), most, at(B, 21)), *body], allowed)
    np.testing.assert_array_equal(memory.second[: steps + 1], [*range(0, 2 * steps, 2), -1])
    assert (memory.second[22], memory.second[23]) == (steps - 1, steps)
    assert runs == [1, 1, 1, 1, 0, steps, steps, steps]


def test_a_loop_ends_when_a_step_says_so_and_loops_may_be_in_loops() -> None:
    memory = Memory()
    memory.first[:] = [1, 1, 1, 0] * 8
    inner = [
        *loop(2, 100, at(B, 25)),
        entry(TableAction.COPY, at(B, 25), at(MOVING), numbers=(8,)),
        entry(TableAction.ADVANCE, numbers=(MOVING, 8)),
    ]
    outer = [
        entry(TableAction.POINT, at(A), numbers=(MOVING,)),
        entry(TableAction.STORE, at(B, 26), numbers=(3,)),
        entry(TableAction.STORE, at(B, 27), numbers=(1,)),
        entry(TableAction.LOOP, at(B, 26), at(B, 27), at(B, 27), at(B, 28), at(B, 29), numbers=(len(inner), ENDLESS)),
    ]
    runs, moved = memory.run([*outer, *inner])
    # Each inner loop ends with the zero that its fourth step finds.
    assert runs[-2:] == [12, 12]
    assert moved[0] == 8 * 12
    assert (memory.second[23], memory.second[29]) == (4, 3)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("position", "is_there"), [(-2, False), (-1, True), (3, True), (4, False)])
def test_what_follows_a_place_that_is_not_there_is_left_out(bits: int, position: int, is_there: bool) -> None:
    memory = Memory()
    memory.first[0] = np.int32(position).view(np.uint32) if bits == 32 else position
    memory.run(
        [
            entry(TableAction.PLACE, at(B, 10), at(A), numbers=(MOVING, 16, -1, 3, bits)),
            entry(TableAction.STORE, at(MOVING), numbers=(5,)),
            entry(TableAction.STORE, at(B), numbers=(6,)),
        ]
    )
    wanted = np.full(32, -1)
    wanted[0] = 6
    if is_there:
        wanted[10 + 2 * position] = 5
    np.testing.assert_array_equal(memory.second, wanted)
