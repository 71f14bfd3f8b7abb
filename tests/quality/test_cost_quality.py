"""Whether the cost model ranks: statistics on a simulated machine, whose truth the roofline only partly knows."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import CostModel
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows


def column(features: np.ndarray, name: str) -> np.ndarray:
    return features[:, NAMES.index(name)].astype(np.float64)


def measured_seconds(features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A machine with slower second-level cache, dear masks and loops, and noise of three percent."""

    def cycles(name: str) -> np.ndarray:
        return np.exp2(column(features, f"s0.{name}"))

    time = np.maximum(cycles("core_cycles"), 2.5 * cycles("l2_cycles")) + 4 * cycles("l3_cycles")
    time *= 1 + 0.7 * column(features, "s0.vector_guards") + 3 / np.exp2(column(features, "s0.copies"))
    time *= np.exp(rng.normal(0, 0.03, len(time)))
    return 1e-9 * time


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    ranks = [np.argsort(np.argsort(x)) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


@pytest.fixture(scope="module")
def population() -> np.ndarray:
    rows = np.unique(draw_rows(4000, seed=1), axis=0)
    features = FeatureProgram(dense_relu(500, 512, 512), COLUMNS, AVX512)(rows)
    return np.random.default_rng(0).permutation(features)


@pytest.mark.parametrize(("samples", "least"), [(16, 0.93), (64, 0.96), (256, 0.985)])
def test_the_model_ranks_unseen_candidates(samples: int, least: float, population: np.ndarray) -> None:
    y = -np.log2(measured_seconds(population, np.random.default_rng(2)))
    model = CostModel()
    model.fit(TaskTimes(population[:samples], np.exp2(-y[:samples])))
    assert rank_correlation(model.predict(population[samples:]), y[samples:]) > least


def test_what_it_likes_best_is_nearly_the_best(population: np.ndarray) -> None:
    y = -np.log2(measured_seconds(population, np.random.default_rng(2)))
    regrets, blind = [], []
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(len(y))
        known, unseen = order[:64], order[64:]
        model = CostModel(seed)
        model.fit(TaskTimes(population[known], np.exp2(-y[known])))
        regrets.append(y[unseen][np.argsort(-model.predict(population[unseen]))[:8]].max())
        blind.append(y[unseen][np.argsort(-column(population[unseen], "all.efficiency"))[:8]].max())
    assert np.median(regrets) > y.max() + np.log2(0.9)
    assert np.mean(regrets) > np.mean(blind) + np.log2(0.9)  # what the roofline knows is not unlearnt
