"""Judging: who may learn from what, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from benchmarks.yardstick.alternatives import alternatives
from benchmarks.yardstick.contestants import Contestant, OwnOnly, Predict, Prediction, Random, Roofline, contestants
from benchmarks.yardstick.data import NEAR_BEST, SPACE
from benchmarks.yardstick.evaluation import CEILING, Protocol, agreement, mean_judgement, verdicts
from benchmarks.yardstick.folds import FEW_OWN, OWN_RECORDS
from benchmarks.yardstick.samples import Samples
from metasched.cost.features import NAMES
from metasched.cost.learning.ranking import judge
from metasched.cost.model_registry import MODELS
from tests.unit.benchmarks.yardstick.conftest import MakeSamples


@dataclass
class Spy:
    """Remembers what it was trained on, and predicts one of the features."""

    name: str = "spy"
    chance: bool = False
    trained: list[tuple[set[str], set[float], int]] = field(default_factory=list)

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        self.trained.append(({one.family for one in others}, set() if own is None else set(own.first), seed))
        return lambda judged: Prediction(judged.features.sum(axis=1).astype(np.float64))


@pytest.fixture
def some(made_up: MakeSamples) -> list[Samples]:
    return [
        made_up("a 1", "a", count=120),
        made_up("a 2", "a", count=64),
        made_up("a 1", "a", count=200, pool=NEAR_BEST),
        made_up("b 1", "b", count=64),
        made_up("b 2", "b", count=110),
    ]


def test_a_contestant_never_sees_the_family_that_it_is_judged_on(some: list[Samples]) -> None:
    spy = Spy()
    found = list(verdicts(some, spy, seeds=range(2)))
    assert [(one.protocol, one.pool, one.seeds) for one in found] == [
        (Protocol.UNSEEN, SPACE, 1),
        (Protocol.UNSEEN, NEAR_BEST, 1),
        (Protocol.OWN, SPACE, 2),
        (Protocol.OWN, NEAR_BEST, 2),
    ]
    assert [[one.task for one in verdict.tasks] for verdict in found] == [
        ["a 1", "a 2", "b 1", "b 2"],
        ["a 1"],
        ["a 1", "b 2"],
        ["a 1"],
    ]
    assert spy.trained[:2] == [({"b"}, set(), 0), ({"a"}, set(), 0)]
    with_own = spy.trained[2:]
    assert len(with_own) == 2 * 2  # a task of 64 has no rest to be judged on
    assert [families for families, _, _ in with_own] == [{"b"}, {"a"}] * 2
    assert [seed for _, _, seed in with_own] == [0, 0, 1, 1]
    assert all(len(own) == OWN_RECORDS for _, own, _ in with_own)
    assert {*some[0].first, *some[2].first} > with_own[0][1] != with_own[2][1]


def test_a_task_of_few_candidates_teaches_and_is_not_judged(some: list[Samples], made_up: MakeSamples) -> None:
    spy = Spy()
    few = [*some, made_up("c 1", "c", count=15)]
    judged = next(verdicts(few, spy, seeds=range(1)))
    assert [one.task for one in judged.tasks] == ["a 1", "a 2", "b 1", "b 2"]
    assert spy.trained[0][0] == {"b", "c"}
    assert [one.task for one in next(agreement(few)).tasks] == ["a 1", "a 2", "b 1", "b 2"]


def test_tasks_beside_teach_where_the_family_is_another_and_are_not_judged(
    some: list[Samples], made_up: MakeSamples
) -> None:
    spy = Spy()
    beside = [made_up("a 3", "a"), made_up("d 1", "d")]
    unseen, own = verdicts(some[3:], spy, range(1), (Protocol.UNSEEN, Protocol.FEW_OWN), beside)
    assert [one.task for one in unseen.tasks] == [one.task for one in own.tasks] == ["b 1", "b 2"]
    assert [(families, len(records)) for families, records, _ in spy.trained] == [
        ({"a", "d"}, 0),
        *[({"a", "d"}, FEW_OWN)] * 2,
    ]


def test_chance_is_tried_with_every_seed(some: list[Samples]) -> None:
    spy = Spy(chance=True)
    first = next(verdicts(some, spy, seeds=range(3)))
    assert first.seeds == 3
    assert [seed for _, _, seed in spy.trained] == [0, 0, 1, 1, 2, 2]


def test_of_random_scores_half_the_pairs_are_right(some: list[Samples]) -> None:
    first = next(verdicts(some, Random(), seeds=range(5)))
    assert np.mean([one.pairs for one in first.tasks]) == pytest.approx(0.5, abs=0.03)
    assert len({run[0].pairs for run in first.runs}) == 5


def test_the_roofline_is_judged_by_its_cycles_as_times(some: list[Samples]) -> None:
    first = next(verdicts(some, Roofline(), seeds=range(5)))
    assert first.seeds == 1
    assert all(one.pairs > 0.85 for one in first.tasks)
    assert all(abs(one.bias) < 0.2 and 0.1 < one.spread < 0.5 for one in first.tasks)


def test_the_ceiling_is_the_other_measurement(some: list[Samples]) -> None:
    space, near = agreement(some)
    assert (space.contestant, space.pool, near.pool) == (CEILING, SPACE, NEAR_BEST)
    assert all(one.pairs == 1.0 for one in space.tasks)
    assert space.tasks[0].bias == pytest.approx(np.log2(1.01))


def test_what_learns_from_its_own_records_ignores_the_others(some: list[Samples], made_up: MakeSamples) -> None:
    judged = made_up("c", "c")
    learned = next(one for one in contestants() if isinstance(one, OwnOnly))
    own = some[0]

    def score(others: Sequence[Samples], own: Samples | None) -> np.ndarray:
        return learned.train(others, own, 0)(judged).score

    assert np.array_equal(score(some[3:], own), score([], own))
    assert np.array_equal(score(some[3:], None), score([], None))
    assert not np.array_equal(score([], own), score([], None))


@pytest.mark.parametrize(
    "contestant", [one for one in (*contestants(), *alternatives()) if one.name != "random"], ids=lambda one: one.name
)
def test_nobody_knows_more_than_the_roofline_before_training(contestant: Contestant, made_up: MakeSamples) -> None:
    """What was trained on measurements, and is shipped, must have no part in what is judged on the same ones."""
    judged = made_up("d", "d")
    features = judged.features.copy()
    features[:, :20] = np.random.default_rng(0).random((len(features), 20)).astype(np.float32)
    predict = contestant.train([], None, 0)
    assert np.array_equal(predict(replace(judged, features=features)).score, predict(judged).score)
    slowest_first = np.argsort(-features[:, NAMES.index("all.total_cycles")])
    assert np.argsort(predict(judged).score, kind="stable").tolist() == slowest_first.tolist()


def test_every_model_of_the_registry_is_judged() -> None:
    assert set(MODELS.names()) <= {one.name for one in contestants()}


def test_over_seeds_times_have_a_geometric_mean() -> None:
    times = np.arange(1.0, 65.0)
    mean = mean_judgement([judge("task", -times, None, times), judge("task", times, None, times)])
    assert mean.pairs == 0.5
    assert mean.best_of_top[1] == pytest.approx(8.0)
    assert mean.task == "task"
