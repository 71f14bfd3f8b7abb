"""Groups of reductions in strips and apart: what a network keeps by their times in its own call, and records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from metasched.database.database_registry import open_database
from metasched.graph.ir import Array
from metasched.graph.network import Network
from metasched.graph.passes.strips import StripGroup
from metasched.graph.running.executable import Executable
from metasched.graph.running.execution_plan import StepInfo
from metasched.graph.tuning import strip_turns
from metasched.graph.tuning.strip_turns import StripSettlement, most_groups, open_groups, settle_groups
from metasched.lang import parse_program
from metasched.measure.timing import Surroundings
from metasched.report.progress_text import duration
from metasched.target import Target
from tests.support.graphs import network, random_inputs

PROGRAM = parse_program("program p(A: f32[8]) -> B: f32[8]:\n    B[i] = A[i] + 1\n")
# Seconds of the steps of each node apart, and of the joined one, which has the last node's name.
APART = {"a1": 1.0, "a2": 1.0, "b1": 1.0, "b2": 1.0, "c": 1.0}
TOGETHER = {"a2": 1.5, "b2": 2.5, "c": 1.0}
A = StripGroup("a", ("a1", "a2"), PROGRAM, 100, together=False)
B = StripGroup("b", ("b1", "b2"), PROGRAM, 50, together=False)

ATTENTION = """m (float[2, 16, 4] q, float[2, 4, 16] k, float[2, 16, 4] v) => (y) {
    a = MatMul(q, k)
    b = Softmax(a)
    y = MatMul(b, v)
}"""
# One second cache does not hold the scores, those of all threads do: apart by the estimate.
OPEN = replace(Target.detect(), l2=1500, l3=1500, threads=2)


class FakeExecutable:
    """Steps of given times; c takes `more` seconds."""

    def __init__(self, ways: Mapping[str, bool], more: float = 0.0) -> None:
        self.ways = dict(ways)
        names = [n for n in APART if n[0] not in ways or not ways[n[0]] or n in TOGETHER]
        self.times = np.array([(TOGETHER if ways.get(n[0]) else APART)[n] + more * (n == "c") for n in names])
        self.steps = tuple(StepInfo(n, "op", n, None, "") for n in names)
        self.weights = self.arena = SimpleNamespace(nbytes=8)


@pytest.fixture(autouse=True)
def fake_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_turns, "step_seconds", lambda first, second, inputs: (first.times, second.times))


def settled(groups: Sequence[StripGroup], now: Mapping[str, bool], more: float = 0.0) -> tuple[StripSettlement, Any]:
    """What comes of it, and the ways of what is to run."""
    before: Any = FakeExecutable(now)

    def make(ways: Mapping[str, bool]) -> Any:
        return FakeExecutable({**now, **ways}, more)

    taken: Any
    found, taken = settle_groups(before, make, groups, [])
    return found, taken.ways


def test_each_group_goes_the_way_that_is_faster() -> None:
    found, ways = settled([A, B], {})
    assert ways == {"a": True}
    assert found.changed == {"a": True}
    assert [(g.key, g.together_s, g.apart_s, g.is_together) for g in found.groups] == [
        ("a", 1.5, 2.0, True),
        ("b", 2.5, 2.0, False),
    ]
    assert (found.before_s, found.after_s) == (5.0, 4.5)
    assert f"{duration(1.5)} together, {duration(2.0)} apart, together now" in str(found)


def test_what_the_estimate_joined_is_taken_apart_where_that_is_faster() -> None:
    found, ways = settled([replace(A, together=True), replace(B, together=True)], {"a": True, "b": True})
    assert ways == {"a": True, "b": False}
    assert found.changed == {"b": False}


def test_a_network_that_is_no_faster_stays_and_nothing_is_said_of_what_changed() -> None:
    found, ways = settled([A, B], {}, more=3.0)
    assert ways == {}
    assert [group.key for group in found.groups] == ["b"]
    assert found.before_s == found.after_s
    assert "no faster" in found.unsettled


def test_a_group_of_which_no_step_is_left_is_left_out() -> None:
    found, ways = settled([replace(A, nodes=("gone", "away"))], {})
    assert (found.groups, ways) == ((), {})


def test_nothing_is_made_where_there_is_no_memory_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=31))
    found, _ = settled([A], {})
    assert not found.is_timed
    assert "takes 32 bytes, and 31 are free" in str(found)


def test_those_with_the_most_between_come_first_and_names_tell_them_apart() -> None:
    assert open_groups([B, A], {}, 1) == [A]
    assert open_groups([A, B], {"a": True}, 2) == [B]
    assert open_groups([A, replace(B, nodes=("a2", "b2"))], {}, 2) == []
    assert [most_groups(budget) for budget in (-1.0, 10.0, 600.0)] == [0, 0, 30]


# --- in a network


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/t.db"


def open_network() -> Network:
    net = network(ATTENTION)
    return Network(net.graph, OPEN)


def steps_of(net: Network) -> int:
    return len(net.steps)


def few_steps_are_fast(first: Executable, second: Executable, inputs: Sequence[Array]) -> tuple[Array, Array]:
    return np.ones(len(first.steps)), np.ones(len(second.steps))


def many_steps_are_fast(first: Executable, second: Executable, inputs: Sequence[Array]) -> tuple[Array, Array]:
    times = [np.full(len(one.steps), 1.0 / len(one.steps) ** 2) for one in (first, second)]
    return times[0], times[1]


def test_what_is_faster_in_strips_is_run_and_recorded_and_the_next_network_takes_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strip_turns, "step_seconds", few_steps_are_fast)
    net = open_network()
    given = random_inputs(net.graph)
    expected = net(**given)
    assert steps_of(net) == 3
    found = net.settle_strips(url, 1)
    assert found.changed == net.ways == dict.fromkeys(net.ways, True)
    assert steps_of(net) == 1
    np.testing.assert_allclose(net(**given), expected, rtol=1e-5, atol=1e-6)
    with open_database(url) as database:
        keys = database.tasks()
        assert {key.surroundings for key in keys} == {Surroundings.TOGETHER, Surroundings.APART}
        times = {key.surroundings: [record.seconds for record in database.records(key)] for key in keys}
    assert times == {Surroundings.TOGETHER: [1.0], Surroundings.APART: [3.0]}
    again = open_network().use(url)
    assert len(list(again.optimised.computes)) == 1
    # What is recorded is not timed again.
    monkeypatch.setattr(strip_turns, "step_seconds", None)
    resumed = open_network()
    assert resumed.settle_strips(url, 1) == StripSettlement()
    assert steps_of(resumed) == 1
    # For another number of threads it says nothing.
    other = Network(net.graph, replace(OPEN, threads=8)).use(url)
    assert len(list(other.optimised.computes)) == 3


def test_what_is_slower_in_strips_stays_apart_also_where_sizes_say_otherwise(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strip_turns, "step_seconds", many_steps_are_fast)
    large = replace(OPEN, l2=1000)
    net = Network(network(ATTENTION).graph, large)
    assert steps_of(net) == 1
    assert net.settle_strips(url, 1).changed == dict.fromkeys(net.ways, False)
    assert steps_of(net) == 3
    assert len(Network(net.graph, large).use(url).steps) == 3
    assert "stay apart, which was measured to be faster" in "".join(map(str, net.passes()))


def test_a_small_budget_times_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strip_turns, "step_seconds", None)
    net = open_network()
    assert net.settle_strips(url, most_groups(10.0)) == StripSettlement()
    assert net.ways == {}
