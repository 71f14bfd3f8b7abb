"""The cost model: sane from no measurement on, repeatable, and honest about failures and lower bounds."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL, TrainedModel
from metasched.cost.learning.training import train
from metasched.cost.model import CostModel, choose_spread
from tests.support.targets import AVX512

from .conftest import COLUMNS, dense_relu, draw_rows


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    return FeatureProgram(dense_relu(), COLUMNS, AVX512)(draw_rows(400))


@pytest.fixture(scope="module")
def taught() -> TrainedModel:
    """A model of other tasks on the same machine."""
    tasks = []
    for n, shape in enumerate([(256, 512, 128), (500, 300, 200), (64, 1024, 512)]):
        features = FeatureProgram(dense_relu(*shape), COLUMNS, AVX512)(draw_rows(100, seed=n + 1))
        tasks.append(TaskTimes(features, seconds_of(features)))
    return train(tasks)


def seconds_of(features: np.ndarray) -> np.ndarray:
    """A machine of 1 GHz that disagrees with the roofline: long register tiles are slow."""
    slower = 1 + 0.5 * np.maximum(features[:, NAMES.index("s0.accumulators")] - 3, 0)
    return 1e-9 * np.exp2(-analytic_score(features)) * slower


def log_error(model: CostModel, features: np.ndarray) -> float:
    return float(np.abs(-model.predict(features) - np.log2(seconds_of(features))).mean())


def order_of(scores: np.ndarray) -> np.ndarray:
    return np.argsort(scores, kind="stable")


def test_a_model_that_nothing_was_taught_ranks_by_the_roofline(population: np.ndarray) -> None:
    score = CostModel().predict(population)
    assert score.shape == (400,)
    assert np.array_equal(order_of(score), order_of(analytic_score(population)))


def test_no_measurement_changes_nothing(population: np.ndarray, taught: TrainedModel) -> None:
    model = CostModel(0, taught)
    before = model.predict(population)
    model.fit(TaskTimes(population[:64], seconds_of(population)[:64]))
    assert not np.array_equal(model.predict(population), before)
    for nothing in (TaskTimes(population[:0], np.empty(0)), TaskTimes(population[:8], np.full(8, np.inf))):
        model.fit(nothing)
        assert np.array_equal(model.predict(population), before)
    assert model.predict(population[:0]).shape == (0,)


@pytest.mark.parametrize("samples", [1, 2, 8, 64])
def test_few_measurements_give_sane_scores(samples: int, population: np.ndarray, taught: TrainedModel) -> None:
    for trained in (UNTRAINED_MODEL, taught):
        model = CostModel(0, trained)
        model.fit(TaskTimes(population[:samples], seconds_of(population)[:samples]))
        score = model.predict(population)
        assert np.isfinite(score).all()
        assert np.corrcoef(score, -np.log2(seconds_of(population)))[0, 1] > 0.8
        assert abs(score.mean() + np.log2(seconds_of(population)).mean()) < 1.5, "scores are seconds"


def test_own_measurements_beat_the_roofline_other_tasks_do_too_and_both_are_best(
    population: np.ndarray, taught: TrainedModel
) -> None:
    own, unseen = TaskTimes(population[:64], seconds_of(population)[:64]), population[200:]
    errors = []
    for model in (CostModel(), CostModel(0, taught)):
        errors.append(log_error(model, unseen))
        model.fit(own)
        errors.append(log_error(model, unseen))
    blind, alone, others, both = errors
    assert alone < 0.6 * blind
    assert others < 0.6 * blind
    assert both < min(alone, others)


def test_failures_are_learnt(population: np.ndarray, taught: TrainedModel) -> None:
    fails = population[:, NAMES.index("s0.vector_extent")] < np.log2(1 + 16)
    seconds = np.where(fails, np.inf, seconds_of(population))
    for trained in (UNTRAINED_MODEL, taught):
        model = CostModel(0, trained)
        model.fit(TaskTimes(population[:200], seconds[:200]))
        score, slowest = model.predict(population[200:]), -np.log2(seconds[np.isfinite(seconds)].max())
        assert score[fails[200:]].max() < score[~fails[200:]].max()
        assert np.median(score[fails[200:]]) < slowest
        assert np.median(score[~fails[200:]]) > slowest


def test_a_lower_bound_says_nothing_where_more_is_expected(population: np.ndarray, taught: TrainedModel) -> None:
    """Half of the measurements were broken off, at whatever time: those bounds must not make candidates look fast."""
    seconds = seconds_of(population)
    broken = np.arange(200) % 2 == 1
    early = np.where(broken, np.minimum(seconds[:200], np.median(seconds)), seconds[:200])
    for trained in (UNTRAINED_MODEL, taught):
        errors = {}
        for name, bounds in (("known", broken), ("taken for times", np.zeros(200, bool))):
            model = CostModel(0, trained)
            model.fit(TaskTimes(population[:200], early, bounds))
            errors[name] = log_error(model, population[200:])
        assert errors["known"] < 0.7 * errors["taken for times"]


def test_what_is_observed_of_a_bound() -> None:
    own = TaskTimes(np.zeros((3, len(NAMES)), np.float32), np.array([1.0, 4.0, 4.0]), np.array([False, True, True]))
    assert own.fill_bounds(np.array([5.0, 1.0, 3.0])).tolist() == [0.0, 2.0, 3.0]


def test_equal_data_give_equal_models_whatever_the_threads(population: np.ndarray, taught: TrainedModel) -> None:
    own = TaskTimes(population[:64], seconds_of(population)[:64])
    scores = []
    for threads in (1, 2, 1):
        model = CostModel(7, taught, threads)
        model.fit(own)
        scores.append(model.predict(population))
    assert np.array_equal(scores[0], scores[1])
    assert np.array_equal(scores[0], scores[2])


def test_of_very_many_measurements_the_fastest_and_some_of_all_others_are_learned() -> None:
    seconds = np.random.default_rng(0).permutation(np.arange(1, 1001) / 1000)
    taken = choose_spread(TaskTimes(np.zeros((1000, len(NAMES)), np.float32), seconds), 100).seconds
    assert len(set(taken.tolist())) == 100
    assert np.array_equal(taken, seconds[np.isin(seconds, taken)]), "their order stays"
    ranked = np.sort(taken)
    assert ranked[:50].max() == pytest.approx(0.05)
    assert ranked[-1] == pytest.approx(1.0)
    assert np.diff(ranked[50:]).max() < 0.03


def test_more_measurements_than_move_leaves_are_learned(population: np.ndarray, taught: TrainedModel) -> None:
    many = FeatureProgram(dense_relu(), COLUMNS, AVX512)(draw_rows(1200, seed=5))
    model = CostModel(0, taught)
    model.fit(TaskTimes(many, seconds_of(many)))
    assert log_error(model, population) < 0.1


def test_other_tasks_teach_what_the_trained_model_does_not_know(population: np.ndarray) -> None:
    """A model that was trained where accumulators cost nothing learns it from tasks of another machine."""
    shapes = enumerate([(256, 512, 128), (500, 300, 200), (64, 1024, 512)])
    parts = [FeatureProgram(dense_relu(*shape), COLUMNS, AVX512)(draw_rows(100, n + 1)) for n, shape in shapes]
    noise = np.random.default_rng(0).normal(0, 0.5, 100)
    plain = train([TaskTimes(part, np.exp2(-analytic_score(part) + noise) * 1e-9) for part in parts])
    others = [TaskTimes(part, seconds_of(part) * (n + 1)) for n, part in enumerate(parts)]
    own = TaskTimes(population[:8], seconds_of(population)[:8])
    right = -np.log2(seconds_of(population))

    def disagreement(model: CostModel) -> float:
        return 1 - float(np.corrcoef(model.predict(population), right)[0, 1])

    alone, taught_one = CostModel(0, plain), CostModel(0, plain)
    taught_one.teach(others)
    assert disagreement(taught_one) < 0.7 * disagreement(alone)
    alone.fit(own)
    taught_one.fit(own)
    assert disagreement(taught_one) < disagreement(alone)


def test_lessons_are_learned_anew_at_every_call_and_own_records_stay(
    population: np.ndarray, taught: TrainedModel
) -> None:
    own = TaskTimes(population[:16], seconds_of(population)[:16])
    other = TaskTimes(population[100:200], seconds_of(population)[100:200] ** 2)
    first, second = CostModel(0, taught), CostModel(0, taught)
    first.fit(own)
    without = first.predict(population)
    first.teach([other])
    second.teach([other])
    second.fit(own)
    assert np.array_equal(first.predict(population), second.predict(population))
    assert not np.array_equal(first.predict(population), without)
    for nothing in ([], [TaskTimes(population[:4], np.full(4, np.inf))]):
        first.teach(nothing)
        assert np.array_equal(first.predict(population), without)


def test_own_records_and_those_of_other_tasks_teach_of_tile_registers_what_the_model_does_not_know(
    population: np.ndarray,
) -> None:
    tiled = population.copy()
    tiled[:, NAMES.index("s0.flops_per_operation")] = 14.0
    seconds = seconds_of(tiled)
    plain = train([TaskTimes(tiled[:100], np.exp2(-analytic_score(tiled[:100]) + noise(100)) * 1e-9)])
    assert not plain.forest.trees, "only the forest for tile registers can move"

    def disagreement(model: CostModel) -> float:
        return 1 - float(np.corrcoef(model.predict(tiled[300:]), -np.log2(seconds[300:]))[0, 1])

    alone, by_others, by_own = CostModel(0, plain), CostModel(0, plain), CostModel(0, plain)
    by_others.teach([TaskTimes(tiled[100:200], 3 * seconds[100:200])])
    by_own.fit(TaskTimes(tiled[200:207], seconds[200:207]))  # of so few no trees are grown
    assert disagreement(by_others) < 0.7 * disagreement(alone)
    assert disagreement(by_own) < disagreement(alone)


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.5, count)
