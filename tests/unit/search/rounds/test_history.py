"""What a strategy remembers: the same, whether it was told at once or in batches."""

from __future__ import annotations

import numpy as np

from metasched.search.rounds.history import History
from metasched.search.space_protocol import Candidate, Observation
from tests.support.toys import Toy, Toys

ARMS = Toys([Toy(width=2), Toy(width=3, flavour=1)])


def seen(count: int) -> list[Observation]:
    """Some of both arms, with failures, bounds and repetitions."""
    rng = np.random.default_rng(0)
    out = []
    for n in range(count):
        arm = int(rng.integers(2))
        row = tuple(int(v) for v in rng.integers(1, 9, ARMS[arm].width))
        seconds = None if n % 5 == 4 else ARMS[arm].seconds(row)
        out.append(Observation(Candidate(arm, row), seconds, bound=n % 7 == 3))
    return out


def test_batches_are_as_good_as_all_at_once() -> None:
    whole, parts = History(ARMS), History(ARMS)
    observations = seen(60)
    whole.add(observations)
    for n in range(0, 60, 7):
        parts.add(observations[n : n + 7])
        assert len(parts.times) == len(parts)
    assert np.array_equal(whole.times.features, parts.times.features)
    assert np.array_equal(whole.times.seconds, parts.times.seconds)
    assert np.array_equal(whole.times.bounds, parts.times.bounds)
    for arm in range(2):
        assert np.array_equal(whole.rows(arm), parts.rows(arm))
        assert np.array_equal(whole.elite(arm, 5), parts.elite(arm, 5))
        assert whole.best_score(arm) == parts.best_score(arm)
        assert whole.measured_count(arm) == parts.measured_count(arm) == len(parts.rows(arm))


def test_features_and_times_stand_in_the_order_of_observation() -> None:
    history = History(ARMS)
    observations = seen(40)
    history.add(observations)
    first = {o.candidate: o for o in reversed(observations)}
    ordered = [first[c] for c in dict.fromkeys(o.candidate for o in observations)]
    assert len(ordered) < 40, "some came twice"
    times = history.times
    for o, features, seconds, bound in zip(ordered, times.features, times.seconds, times.bounds, strict=True):
        expected = ARMS[o.candidate.arm].features(np.array([o.candidate.row]))[0]
        assert np.array_equal(features, expected)
        assert seconds == (np.inf if o.seconds is None else o.seconds)
        assert bound == o.bound


def test_the_elite_are_the_fastest_and_bounds_come_last() -> None:
    history = History(ARMS)
    rows = {(1, 1): (3.0, False), (2, 2): (1.0, True), (3, 3): (None, False), (4, 4): (2.0, False), (5, 5): (4.0, True)}
    history.add([Observation(Candidate(0, row), s, bound) for row, (s, bound) in rows.items()])
    assert history.elite(0, 9).tolist() == [[4, 4], [1, 1], [2, 2], [5, 5]]
    assert history.elite(0, 2).tolist() == [[4, 4], [1, 1]]
    assert history.elite(1, 9).shape == (0, 3)
    assert history.best_score(0) == 0.0, "-log2 of a second"


def test_nothing_was_fast_before_the_first_success() -> None:
    history = History(ARMS)
    assert len(history.times) == 0
    assert history.best_score(0) == -np.inf
    history.add([Observation(Candidate(0, (1, 1)), None)])
    assert history.best_score(0) == -np.inf
    assert history.times.seconds.tolist() == [np.inf]


def test_asking_for_an_arm_leaves_no_trace() -> None:
    """What is proposed next must not depend on what was looked at before, and not measured."""
    history = History(ARMS)
    assert len(history.rows(0)) == len(history.elite(1, 4)) == 0
    assert history.arms == []
    history.add([Observation(Candidate(1, (1, 2, 3)), 1.0)])
    assert history.rows(0).shape == (0, 2)
    assert history.arms == [1]


def test_a_part_is_what_was_known_then() -> None:
    then, whole = History(ARMS), History(ARMS)
    then.add(seen(20))
    whole.add(seen(60))
    part = whole.until(len(then))
    assert part.seconds() == then.seconds()
    assert part.arms == then.arms
    assert np.array_equal(part.times.features, then.times.features)
    assert np.array_equal(part.times.bounds, then.times.bounds)
    assert len(whole.until(0)) == 0


def test_the_fastest_are_candidates_in_order_and_bounds_come_last() -> None:
    history = History(ARMS)
    candidates = [Candidate(0, (n, n)) for n in range(1, 5)]
    times = [(3.0, False), (1.0, True), (None, False), (2.0, False)]
    history.add([Observation(c, s, bound) for c, (s, bound) in zip(candidates, times, strict=True)])
    assert history.fastest_candidates(8) == [candidates[3], candidates[0], candidates[1]]
    assert history.fastest_candidates(1) == [candidates[3]]
