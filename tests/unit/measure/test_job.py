"""The order of the visits of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from itertools import pairwise

import pytest

from metasched.lang import parse_program
from metasched.measure.job import Job, next_visited, turn_order
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.records import MeasureCandidate
from metasched.measure.timing import Times, TimingPlan

PROGRAM = parse_program("program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = A[i] + 1\n")
PLAN = TimingPlan(apart_s=0.1)


def job(visited_at: float | None, plan: TimingPlan = PLAN) -> Job:
    visits: list[Times] = [] if visited_at is None else [(1.0,)]
    candidate = MeasureCandidate(str(PROGRAM), PROGRAM.params, "", "")
    return Job(PROGRAM, candidate, Future(), None, plan, {}, visits=visits, visited_at=visited_at or 0.0)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_turns_visit_all_and_a_third_of_the_others_between_two_visits_where_there_are_many(count: int) -> None:
    turns = [turn_order(range(count), turn) for turn in range(4)]
    assert all(sorted(turn) == list(range(count)) for turn in turns)
    visits = [job for turn in turns for job in turn]
    for job in range(count) if count >= 8 else ():
        at = [n for n, visited in enumerate(visits) if visited == job]
        assert min(b - a for a, b in pairwise(at)) > count / 3


def order(jobs: Sequence[Job], start: float, each: float) -> tuple[list[int], float]:
    """The order in which jobs are visited from `start` on, and when that ends, where a visit takes `each`."""
    waiting, found, now = list(enumerate(jobs)), [], start
    while waiting:
        number, chosen = waiting.pop(next_visited([job for _, job in waiting], now))
        now = max(now, chosen.due_at) + each
        found.append(number)
    return found, now


def test_a_turn_keeps_its_order_where_all_are_due() -> None:
    assert order([job(2.0), job(1.0), job(None), job(0.5)], start=2.2, each=0.01)[0] == [0, 1, 2, 3]


def test_nobody_waits_while_another_is_due() -> None:
    # Each was visited .02 s after the one that comes after it in this turn.
    assert order([job(1.08), job(1.06), job(1.04), job(1.02), job(None)], start=1.1, each=0.05)[0] == [4, 2, 0, 1, 3]


def test_where_nobody_is_due_the_first_to_be_due_is_waited_for() -> None:
    visited, ended = order([job(1.02), job(1.01), job(1.0)], start=1.03, each=0.01)
    assert visited[0] == 2
    assert ended == pytest.approx(1.0 + 0.1 + 3 * 0.01)


def test_what_is_compared_in_turns_keeps_its_order() -> None:
    assert order([job(2.0, IN_TURNS), job(1.0, IN_TURNS)], start=2.0, each=0.01)[0] == [0, 1]
