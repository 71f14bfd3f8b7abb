"""Counting cycles beside work that interrupts."""

from __future__ import annotations

import pytest

from metasched.calibration import cycles
from metasched.calibration.cycles import CycleCounter
from metasched.target import Target


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> CycleCounter:
    """A counter on a machine whose times are made up: a cycle of one second, of a chain and of calls in turns."""
    made = CycleCounter(Target.detect(threads=1))
    monkeypatch.setattr(made, "_cycle_s", CHAINS.pop)
    monkeypatch.setattr(cycles, "seconds_of", lambda call: call())
    return made


CHAINS: list[float] = []


@pytest.mark.parametrize("interrupted", range(6))
def test_a_chain_that_was_interrupted_makes_no_call_seem_short(counter: CycleCounter, interrupted: int) -> None:
    CHAINS[:] = [50.0 if n == interrupted else 1.0 for n in range(6)]
    assert counter.least_call_cycles(lambda: 7.0, samples=3) == 7.0
    CHAINS[:] = [50.0 if n == interrupted else 1.0 for n in range(6)]
    assert counter.call_cycles(lambda: 7.0, samples=3) == 7.0


def test_calls_that_were_interrupted_are_not_counted(counter: CycleCounter) -> None:
    seconds = iter([90.0, 7.0, 8.0, 90.0, 7.0, 8.0])
    CHAINS[:] = [1.0] * 12
    assert counter.least_call_cycles(lambda: next(seconds), samples=3) == 7.0
    assert counter.call_cycles(lambda: next(seconds), samples=3) == 8.0


def test_a_clock_that_changes_does_not_matter(counter: CycleCounter) -> None:
    seconds = iter([14.0, 7.0, 14.0])
    CHAINS[:] = [2.0, 2.0, 1.0, 1.0, 2.0, 2.0]
    assert counter.call_cycles(lambda: next(seconds), samples=3) == 7.0


def test_each_iteration_of_a_loop_takes_about_as_long_however_many_there_are() -> None:
    counts: list[int] = []

    def loop(count: int) -> None:
        counts.append(count)
        sum(range(count))

    assert CycleCounter(Target.detect(threads=1)).iteration_cycles(loop, samples=2) > 0
    assert counts[-1] == counts[-2] >= 64
