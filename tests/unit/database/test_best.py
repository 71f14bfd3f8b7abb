"""What the best of a task is: the guess, unless something is faster for sure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.database import Record, Role, TaskKey, Visit, VisitKind
from metasched.database.best import (
    FINALISTS,
    LEAST_PAIRS,
    best_of,
    comparison,
    fastest_records,
    finalists,
    guess_of,
    is_faster,
    noise_of,
)

TASK = TaskKey("0" * 64, "cpu", 2)


def record(trial: int, *seconds: float, role: Role = Role.CANDIDATE, raced: bool = False) -> Record:
    """A record of a visit for each of the times."""
    visits = tuple(Visit((s,)) for s in seconds)
    failure = None if visits else "run-timeout"
    return Record(TASK, "p", (), f"t{trial}", visits, failure, raced, (), 0.0, 0, trial, role=role)


def turns(of: Record, *seconds: float, final: str = "9") -> Record:
    """The same with a visit in each of some turns."""
    visits = (Visit((s,), VisitKind.TURN, f"{final}/{n}") for n, s in enumerate(seconds))
    return replace(of, visits=(*of.visits, *visits))


GUESS = record(0, 1.0, 1.0, role=Role.DEFAULT)


def test_without_a_guess_it_is_the_fastest_that_has_a_time() -> None:
    records = [record(1, 3.0, 3.0), record(2, 2.0, 2.0), record(3, 2.0, 2.0), record(4)]
    bounds = [record(5, 1.0), record(6, 1.0, 1.0, raced=True)]
    assert best_of([*records, *bounds]) is records[1]
    assert best_of(bounds) is None, "one visit is no time, and a raced one is a bound"
    assert [r.trial for r in fastest_records([*records, *bounds], 9)] == [2, 3, 1, 5, 6]


def test_one_that_was_never_compared_with_the_guess_is_not_taken() -> None:
    assert best_of([record(1, 0.9, 0.9), GUESS]) is GUESS


def test_one_that_is_clearly_faster_needs_no_turns() -> None:
    faster = record(1, 0.7, 0.7)
    assert best_of([GUESS, faster]) is faster
    assert best_of([GUESS, record(1, 0.7, 0.8)]) is not GUESS
    once_fast = record(0, 1.0, 0.9, role=Role.GUESS)
    assert best_of([once_fast, record(1, 0.7, 0.8)]) is once_fast


@pytest.mark.parametrize(
    ("times", "wins"),
    [
        ((0.9,) * 8, True),
        ((0.9, 1.1) * 4, False),
        ((1.01,) * 8, False),
        ((0.85,) * (LEAST_PAIRS - 1), False),
    ],
)
def test_the_guess_stays_unless_a_paired_test_says_otherwise(times: tuple[float, ...], wins: bool) -> None:
    """However fast it looked in the search."""
    other = turns(record(1, 0.9, 0.9), *times)
    guess = turns(GUESS, *(1.0,) * len(times))
    assert is_faster(other, guess) == wins
    assert best_of([guess, other]) is (other if wins else guess)


def test_turns_of_different_finals_are_no_pairs() -> None:
    other = turns(record(1, 0.9, 0.9), *(0.5,) * 8, final="10")
    assert comparison(other, turns(GUESS, *(1.0,) * 8)) is None


def test_a_guess_that_lost_the_race_or_failed_is_no_obstacle() -> None:
    faster = record(1, 0.9, 0.9)
    assert best_of([faster, replace(GUESS, raced=True)]) is faster
    assert best_of([faster, record(0, role=Role.GUESS)]) is faster


def test_the_default_guess_is_the_one_to_beat() -> None:
    other = record(1, 2.0, 2.0, role=Role.GUESS)
    assert guess_of([GUESS, other]) is GUESS
    assert best_of([other, GUESS]) is GUESS


def test_of_those_timed_in_turns_one_is_taken_unless_another_is_clearly_faster() -> None:
    tested = turns(record(1, 0.8, 0.8), *(0.9,) * 8)
    lucky, better = record(2, 0.85, 0.85), record(3, 0.5, 0.5)
    guess = turns(GUESS, *(1.0,) * 8)
    assert best_of([guess, tested, lucky]) is tested
    assert best_of([guess, tested, lucky, better]) is better
    assert best_of([tested, lucky]) is tested


def test_finalists_are_the_fastest_and_the_guesses_until_they_were_timed_in_turns() -> None:
    others = [record(n, 0.9 + n / 100, 0.9 + n / 100) for n in range(1, 9)]
    slow = record(20, 1.5, 1.5)
    found = finalists([*others, slow, GUESS])
    assert found == [GUESS, *others[:FINALISTS]]
    assert finalists([turns(r, *(1.0,) * 8) for r in found] + [*others[FINALISTS:], slow]) == []
    newcomer = record(21, 0.5, 0.5)
    assert newcomer in finalists([turns(r, *(1.0,) * 8) for r in found] + [newcomer])


def test_nothing_is_left_to_tell_where_one_record_has_a_time() -> None:
    assert finalists([GUESS]) == []
    assert finalists([GUESS, record(1), record(2, 0.5), record(3, 9.0, 9.0)]) == []


def test_the_noise_is_that_of_the_same_code_measured_again() -> None:
    assert noise_of([GUESS]) is None
    twice = [
        replace(r, visits=(*r.visits, *(Visit((s,), VisitKind.REPEAT, "5") for s in again)))
        for r, again in ((record(1, 1.0, 1.0), (1.1, 1.1)), (record(2, 2.0, 2.0), (2.2,)), (record(3, 1.0, 1.0), ()))
    ]
    noise = noise_of(twice)
    assert noise is not None
    assert noise.repeats == 2
    assert noise.deviation == pytest.approx(0.0674, abs=1e-3)
    assert str(noise) == "7.0% (standard deviation, 2 measured again)"


def test_the_search_goes_on_learning_what_it_learned() -> None:
    again = turns(record(1, 1.0, 1.0), *(2.0,) * 8)
    assert again.search_seconds == 1.0
    assert again.seconds == 2.0
