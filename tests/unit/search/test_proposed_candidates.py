"""What a strategy of one's own proposes is checked, once each."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.errors import MetaschedError
from metasched.search.proposed_candidates import proposed_by
from metasched.search.space_protocol import Arms, Candidate, Observation
from metasched.search.task import Task
from tests.support.programs import DENSE_RELU


class Says:
    """A strategy that proposes what it is given."""

    def __init__(self, *candidates: object) -> None:
        self.candidates = list(candidates)

    def propose(self, count: int) -> Any:
        return self.candidates

    def observe(self, results: Sequence[Observation]) -> None: ...


class SaysInParts(Says):
    """The same, one at a time."""

    def propose_in_parts(self, count: int) -> Iterator[list[object]]:
        for candidate in self.candidates:
            yield [candidate]


def all_of(parts: Iterable[list[Candidate]]) -> list[Candidate]:
    return list(chain.from_iterable(parts))


@pytest.fixture(scope="module")
def arms() -> Arms:
    made = Task(ms.parse_program(DENSE_RELU)).arms.arms
    assert made.first() == 0
    return made


@pytest.fixture(scope="module")
def row(arms: Arms) -> tuple[int, ...]:
    """One of the first arm."""
    drawn = arms[0].repair(arms[0].sample(np.random.default_rng(0), 1))[0].tolist()
    assert len(drawn) > 1
    return tuple(drawn)


def test_rows_and_arms_are_integers_of_any_kind(arms: Arms, row: tuple[int, ...]) -> None:
    numbers: Any = np.array(row)
    rows = (row, list(row), numbers, tuple(numbers))
    for found in all_of(proposed_by(Says(*(Candidate(np.int64(0), given) for given in rows)), 4, arms)):  # type: ignore[arg-type]
        assert found == Candidate(0, row)
        assert {type(n) for n in (found.arm, *found.row)} == {int}


def test_of_more_than_were_asked_for_the_first_are_taken(arms: Arms, row: tuple[int, ...]) -> None:
    """Who proposes all that there is would not let a budget be looked at."""
    assert all_of(proposed_by(Says(Candidate(0, row), *[Candidate(99, row)] * 9), 1, arms)) == [Candidate(0, row)]


def test_of_parts_too(arms: Arms, row: tuple[int, ...]) -> None:
    same = [Candidate(0, row)] * 3
    assert list(proposed_by(SaysInParts(*same), 2, arms)) == [same[:1], same[:1], []]


@pytest.mark.parametrize(
    ("arm", "changed", "message"),
    [
        (99, lambda row: row, "there are arms 0 to 0\n  hint: the methods of `arms` give their numbers"),
        (-1, lambda row: row, "there are arms 0 to 0"),
        (None, lambda row: row, "an arm is an integer, and a row a tuple of integers"),
        (0, lambda row: row[1:], "a row of arm 0 has "),
        (0, lambda row: np.array(row, np.float64), "an arm is an integer, and a row a tuple of integers"),
        (0, lambda row: None, "an arm is an integer, and a row a tuple of integers"),
        (0, lambda row: [row], "an arm is an integer, and a row a tuple of integers"),
        (0, lambda row: (2**64, *row[1:]), "a number of a row fits 64 bits"),
        (0, lambda row: (-1,) * len(row), "the row is not in the arm's support, and ["),
        (0, lambda row: (2**62,) * len(row), "hint: `arm.repair(rows)` moves rows into the support"),
    ],
)
def test_what_is_none_of_the_arms(arm: Any, changed: Any, message: str, arms: Arms, row: tuple[int, ...]) -> None:
    wrong = Candidate(arm, changed(row))
    said = re.escape(f"the strategy Says proposed {wrong!r}: ") + ".*" + re.escape(message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MetaschedError, match=re.compile(said, re.DOTALL)):
            all_of(proposed_by(Says(Candidate(0, row), wrong), 2, arms))


@pytest.mark.parametrize("wrong", [None, [3], "ab"])
def test_what_is_no_candidate(wrong: Any, arms: Arms) -> None:
    strategy = Says()
    strategy.candidates = wrong
    with pytest.raises(
        MetaschedError, match=r"the strategy Says proposed .*; `propose` returns a list of `Candidate`s"
    ):
        all_of(proposed_by(strategy, 1, arms))


@pytest.mark.parametrize("wrong", [None, 3, [None], [[3]]])
def test_what_are_no_parts(wrong: Any, arms: Arms) -> None:
    strategy = SaysInParts()
    strategy.propose_in_parts = lambda count: wrong  # type: ignore[method-assign]
    with pytest.raises(MetaschedError, match=r"proposed .*; `propose_in_parts` yields lists of `Candidate`s, and none"):
        all_of(proposed_by(strategy, 1, arms))


def test_a_search_says_so(arms: Arms) -> None:
    with pytest.raises(MetaschedError, match="the strategy Says proposed Candidate"):
        ms.tune(ms.parse_program(DENSE_RELU), 8, "sqlite:///:memory:", strategy=lambda given: Says(Candidate(-1, ())))
