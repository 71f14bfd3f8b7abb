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


def test_a_loop_has_as_many_iterations_as_a_sample_takes_and_the_cycles_are_of_one(
    counter: CycleCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def loop(count: int) -> float:
        """An iteration takes a second, by the times that are made up."""
        counts.append(count)
        return float(count)

    monkeypatch.setattr(cycles, "_SAMPLE_S", 1000.0)
    CHAINS[:] = [2.0] * 4
    assert counter.iteration_cycles(loop, samples=2) == 0.5
    assert counts == [64, 256, 1000, 1000]
