"""Twins are candidates with equal features: of one that comes earlier, that is taken, or that was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from metasched.cost.features import NAMES
from metasched.search.rounds.history import History
from metasched.search.rounds.seen_features import SeenFeatures
from metasched.search.space_protocol import Candidate, Observation
from tests.support.toys import Toy, Toys

ARMS = Toys([Toy(width=2), Toy(width=2, flavour=1)])


def alike(rows: Sequence[tuple[int, ...]], first: int) -> np.ndarray:
    """Features that tell rows apart by their first number only."""
    found = np.zeros((len(rows), len(NAMES)), np.float32)
    found[:, 0] = [row[0] for row in rows]
    found[:, 1] = first
    return found


@pytest.fixture
def seen() -> SeenFeatures:
    seen = SeenFeatures(History(ARMS))
    for arm in range(2):
        rows = [(1, 1), (1, 2), (2, 1)]
        seen.add(arm, np.array(rows[:1]), alike(rows[:1], arm))
        seen.add(arm, np.array(rows[1:]), alike(rows[1:], arm))
    return seen


def test_the_first_of_equal_features_is_no_twin(seen: SeenFeatures) -> None:
    candidates = [Candidate(0, (1, 2)), Candidate(1, (1, 1)), Candidate(0, (1, 1)), Candidate(0, (2, 1))]
    assert seen.twins(candidates) == [False, False, True, False]


def test_what_looks_like_one_taken_is_a_twin(seen: SeenFeatures) -> None:
    assert seen.twins([Candidate(0, (1, 1)), Candidate(0, (2, 1))], [Candidate(0, (1, 2))]) == [True, False]


def test_what_looks_like_one_measured_is_a_twin() -> None:
    history = History(ARMS)
    history.add([Observation(Candidate(0, (1, 1)), 1.0)])
    seen = SeenFeatures(history)
    rows = np.array([[1, 1], [5, 7]])
    seen.add(0, rows, ARMS[0].features(rows))
    assert seen.twins([Candidate(0, (1, 1)), Candidate(0, (5, 7))]) == [True, False]


def test_candidates_are_of_the_round(seen: SeenFeatures) -> None:
    seen.begin_round()
    seen.add(0, np.array([[1, 1]]), alike([(1, 1)], 0))
    with pytest.raises(KeyError, match="of arm 0 is not of this round"):
        seen.twins([Candidate(0, (1, 2))])
