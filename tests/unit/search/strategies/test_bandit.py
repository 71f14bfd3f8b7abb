"""The bandit takes what was worth most, and forgets nothing when it is resumed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.search.space_protocol import Candidate, Observation
from metasched.search.strategies.bandit import Bandit, BanditConfig
from metasched.search.strategy_registry import StrategyInputs
from tests.support.toys import Bench, Toy, Toys

NAMES = ("random", "droplet", "beam")


def bandit(**changes: float) -> Bandit:
    return Bandit(StrategyInputs(Toys([Toy()]), CostModel()), BanditConfig(NAMES, **changes))  # type: ignore[arg-type]


def batch(number: int, seconds: float) -> list[Observation]:
    return [Observation(Candidate(0, (number, n, 1, 1)), seconds) for n in range(1, 4)]


def taken(one: Bandit, gains: Sequence[str], batches: int) -> list[str]:
    """What is taken for each batch, where only those in `gains` ever find a new best."""
    out: list[str] = []
    best = 1.0
    one.observe(batch(1, best))
    for number in range(2, batches + 2):
        out.append(one.chosen_strategy())
        best = best * 0.9 if out[-1] in gains else best
        one.observe(batch(number, best))
    return out


def test_each_is_tried_and_then_the_one_that_gains() -> None:
    seen = taken(bandit(), ["droplet"], 20)
    assert seen[:3] == list(NAMES)
    assert seen.count("droplet") > 14


def test_exploration_shares_batches_out() -> None:
    seen = taken(bandit(exploration=5.0), ["droplet"], 21)
    assert min(seen.count(name) for name in NAMES) >= 5


def test_old_successes_count_less() -> None:
    assert Bandit.credit([True, False]) < Bandit.credit([False, True])
    assert (Bandit.credit([False] * 3), Bandit.credit([True] * 3)) == (0.0, 1.0)


def test_the_first_batch_a_failure_and_a_bound_are_no_success() -> None:
    one = bandit()
    one.observe(batch(1, 1.0))
    one.observe(
        [Observation(Candidate(0, (9, 9, 1, 1)), None), Observation(Candidate(0, (9, 8, 1, 1)), 0.1, bound=True)]
    )
    assert one._uses == [("random", False)]


def test_where_the_one_that_is_taken_finds_nothing_another_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bandit()
    monkeypatch.setattr(type(one._strategies["random"]), "propose", lambda self, count: [])
    assert len(one.propose(4)) == 4


def test_its_model_is_trained_on_all_that_was_observed() -> None:
    """Whichever strategy proposed: what it expects of candidates is recorded with them."""
    model, bench = CostModel(), Bench([Toy()])
    one = Bandit(StrategyInputs(Toys([Toy()]), model))
    for _ in range(5):
        one.observe(bench.measure(one.propose(6)))
    one.propose(6)
    alone = CostModel()
    alone.fit(one._strategies["droplet"].history.times)  # type: ignore[attr-defined]
    features = Toy().features(np.array([c.row for c in bench.seen]))
    assert np.array_equal(model.predict(features), alone.predict(features))
