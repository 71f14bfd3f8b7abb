"""What a network keeps of tuned kernels, by their times in its own call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from metasched.graph.ir import Array
from metasched.graph.running.executable import RunTimes
from metasched.graph.running.execution_plan import StepInfo
from metasched.graph.tuning import settling
from metasched.graph.tuning.settling import Settlement, expected_seconds, settle

# The task of each step; nanoseconds of a call by the kernel before and by the tuned one.
TASKS = ("a", "b", "a", "c")
BEFORE = {"a": 50, "b": 50, "c": 10}
TUNED = {"a": 40, "b": 60, "c": 10}


class Clock:
    """Seconds that only executables let pass."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class FakeExecutable:
    """Runs of given times; c takes `more` nanoseconds."""

    def __init__(self, clock: Clock, tuned: Set[str], more: float = 0) -> None:
        self.clock, self.tuned = clock, tuned
        self.times = [(TUNED if task in tuned else BEFORE)[task] + more * (task == "c") for task in TASKS]
        self.steps = tuple(StepInfo(task, "op", task, schedule_of(task, tuned), "") for task in TASKS)
        self.weights = self.arena = SimpleNamespace(nbytes=8)

    def run(self, inputs: Sequence[Array], most: int) -> None:
        self.clock.now += sum(self.times) * 1e-9

    def run_timed(self, inputs: Sequence[Array], most: int) -> RunTimes:
        return RunTimes(np.array(self.times), np.ones(len(self.times)))


def schedule_of(task: str, tuned: Set[str]) -> str:
    """All are another when they are tuned but that of c."""
    return "tuned" if task in tuned and task != "c" else "before"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(settling, "time", made)
    return made


def settled(clock: Clock, more: Mapping[int, float] | None = None) -> tuple[Settlement, Any, list[Set[str]]]:
    """What comes of it, the executable to run, and the tuned tasks of all that were made."""
    made: list[Set[str]] = []

    def make(tuned: Set[str]) -> Any:
        made.append(tuned)
        return FakeExecutable(clock, tuned, (more or {}).get(len(made), 0))

    before: Any = FakeExecutable(clock, frozenset())
    found, taken = settle(before, make, [])
    return found, None if taken is before else taken, made


def test_a_tuned_kernel_that_is_slower_in_the_network_is_not_used(clock: Clock) -> None:
    found, taken, made = settled(clock)
    assert made == [{"a", "b", "c"}, {"a"}]
    assert taken.tuned == {"a"}
    assert [(task.key, task.is_tuned) for task in found.tasks] == [("a", True), ("b", False)]
    a, b = found.tasks
    np.testing.assert_allclose((a.before_s, a.tuned_s, a.seconds), (100e-9, 80e-9, 80e-9))
    np.testing.assert_allclose((b.before_s, b.tuned_s, b.seconds), (50e-9, 60e-9, 50e-9))
    np.testing.assert_allclose((found.before_s or 0, found.after_s or 0), (160e-9, 140e-9))
    assert str(found).endswith("of 2 tuned kernels, 1 are faster there and used")


def test_it_takes_as_long_as_is_expected(clock: Clock) -> None:
    """Of a small network a fixed number of turns, of a large one as many as fit, of a huge one a few."""
    settled(clock)
    # Every other run of a turn is not timed, and takes no time here.
    assert 0.8 / 2 < clock.now / expected_seconds(160e-9) <= 1.0
    assert expected_seconds(0.001) == pytest.approx(0.8)
    assert expected_seconds(0.03) == pytest.approx(6.0)
    assert expected_seconds(1.0) == pytest.approx(40.0)


def test_a_network_that_is_slower_by_kernels_that_are_faster_stays_as_it_was(clock: Clock) -> None:
    found, taken, _ = settled(clock, {2: 100.0})
    assert taken is None
    assert [task.is_tuned for task in found.tasks] == [False, False]
    assert found.before_s == found.after_s


def test_nothing_is_timed_where_all_kernels_are_what_they_were(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.schedule_of", lambda task, tuned: "the same")
    found, taken, made = settled(clock)
    assert (found, taken, len(made), clock.now) == (Settlement(), None, 1, 0.0)


def test_nothing_is_made_where_there_is_no_memory_for_two(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=31))
    found, taken, made = settled(clock)
    assert (taken, made) == (None, [])
    assert "takes 32 bytes, and 31 are free" in found.unsettled
    assert "were not timed in the network" in str(found)
