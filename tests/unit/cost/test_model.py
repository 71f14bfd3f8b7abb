"""The cost model: sane from no sample on, repeatable, and the same after a round trip through text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metasched.cost.baseline import analytic_efficiency
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.model import CostModel, ModelError, calibrate, spread_rows
from tests.support.targets import AVX512

from .conftest import COLUMNS, dense_relu, draw_rows


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    return FeatureProgram(dense_relu(), COLUMNS, AVX512)(draw_rows(400))


def truth(features: np.ndarray) -> np.ndarray:
    """A machine that disagrees with the roofline: long register tiles are bad, imbalance hurts twice."""
    value = analytic_efficiency(features)
    value = value / (1 + 0.5 * np.maximum(features[:, NAMES.index("s0.accumulators")] - 4, 0))
    return value / value.max()


def test_an_untrained_model_ranks_by_the_roofline(population: np.ndarray) -> None:
    score = CostModel().predict(population)
    assert score.shape == (400,)
    order = np.argsort(analytic_efficiency(population), kind="stable")
    assert np.all(np.diff(score[order]) >= 0)


def test_no_samples_leave_the_model_untrained(population: np.ndarray) -> None:
    model = CostModel()
    model.fit(population[:0], np.zeros(0))
    assert not model.trained
    assert model.predict(population[:0]).shape == (0,)


@pytest.mark.parametrize("samples", [1, 2, 8, 64])
def test_few_samples_give_sane_scores(samples: int, population: np.ndarray) -> None:
    model = CostModel()
    model.fit(population[:samples], truth(population)[:samples])
    score = model.predict(population)
    assert np.isfinite(score).all()
    assert score.max() < 2
    if samples > 2:
        assert np.corrcoef(score, truth(population))[0, 1] > 0.3


def test_learning_beats_the_roofline(population: np.ndarray) -> None:
    model = CostModel()
    model.fit(population[:200], truth(population)[:200])
    unseen, actual = population[200:], truth(population)[200:]
    learned = np.abs(model.predict(unseen) - actual).mean()
    roofline = np.abs(calibrate(population[:200], truth(population)[:200])(unseen) - actual).mean()
    assert learned < 0.6 * roofline


def test_failures_are_learnt(population: np.ndarray) -> None:
    y = truth(population)
    fails = population[:, NAMES.index("s0.vector_extent")] < np.log2(1 + 16)
    y = np.where(fails, 0.0, np.maximum(y, 0.3))
    model = CostModel()
    model.fit(population[:200], y[:200])
    score = model.predict(population[200:])
    assert score[fails[200:]].mean() < 0.15
    assert score[~fails[200:]].mean() > 0.25


def test_all_failures_do_not_break_training(population: np.ndarray) -> None:
    model = CostModel()
    model.fit(population[:8], np.zeros(8))
    assert np.isfinite(model.predict(population)).all()


def test_equal_data_give_equal_models_whatever_the_threads(population: np.ndarray) -> None:
    y = truth(population)
    scores = []
    for threads in (1, 2, 1):
        model = CostModel(seed=7, threads=threads)
        model.fit(population[:64], y[:64])
        scores.append(model.predict(population))
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def test_a_saved_model_predicts_the_same(population: np.ndarray, tmp_path: Path) -> None:
    model = CostModel()
    model.fit(population[:64], truth(population)[:64])
    model.save(tmp_path / "model.txt")
    np.testing.assert_array_equal(CostModel.load(tmp_path / "model.txt").predict(population), model.predict(population))


@pytest.mark.parametrize("text", ["", "[]", '{"format": 0, "features": []}', '{"format": 1, "features": ["x"]}'])
def test_a_model_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="train it again"):
        CostModel.loads(text)


def test_mismatched_shapes_are_refused(population: np.ndarray) -> None:
    with pytest.raises(ValueError, match="do not go with"):
        CostModel().fit(population[:3], np.ones(2))


def test_of_very_many_measurements_the_fastest_and_some_of_all_others_are_learned() -> None:
    throughput = np.random.default_rng(0).permutation(np.arange(1, 1001) / 1000)
    rows = spread_rows(throughput, 100)
    assert len(set(rows.tolist())) == 100
    assert np.all(np.diff(rows) > 0)
    taken = np.sort(throughput[rows])
    assert taken[50:].min() == pytest.approx(0.951)
    assert taken[0] == pytest.approx(0.001)
    assert np.diff(taken[:50]).max() < 0.03
