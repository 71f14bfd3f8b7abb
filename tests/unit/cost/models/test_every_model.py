"""What every model keeps to, and how they are found."""

from __future__ import annotations

import re

import numpy as np
import pytest

from metasched.cost.features import NAMES
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model_registry import MODELS, model_of
from metasched.errors import MetaschedError

CYCLES = NAMES.index("all.total_cycles")


def rows(count: int) -> np.ndarray:
    features = np.zeros((count, len(NAMES)), np.float32)
    features[:, CYCLES] = np.linspace(20.0, 16.0, count)
    return features


def test_ours() -> None:
    assert MODELS.names() == ("roofline", "trees")


@pytest.mark.parametrize("name", MODELS.names())
def test_a_model_ranks_by_the_roofline_before_it_has_learned_and_by_what_it_has_learned_after(name: str) -> None:
    model = MODELS.get(name)(0)
    untrained = model.predict(rows(20))
    assert untrained.shape == (20,)
    assert (np.diff(untrained) > 0).all()
    seconds = np.geomspace(1e-2, 1e-3, 20)
    model.fit(TaskTimes(rows(20), seconds))
    learned = model.predict(rows(20))
    assert np.abs(learned + np.log2(seconds)).mean() < 0.3 * np.abs(untrained + np.log2(seconds)).mean()
    model.fit(TaskTimes(rows(0), np.empty(0)))
    assert np.array_equal(model.predict(rows(20)), untrained), "of nothing, nothing is learned"
    assert model.predict(rows(0)).shape == (0,)


@pytest.mark.parametrize("name", MODELS.names())
def test_equal_seeds_and_data_give_equal_models(name: str) -> None:
    one, other = model_of(name)(3), model_of(name)(3)
    seconds = np.random.default_rng(0).random(20)
    for model in (one, other):
        model.fit(TaskTimes(rows(20), seconds))
    assert np.array_equal(one.predict(rows(20)), other.predict(rows(20)))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(MetaschedError, match=re.escape("there is no model `tree`\n  hint: did you mean `trees`?")):
        model_of("tree")
