"""Models that searches are played with: the one that knows nothing repeats itself."""

from __future__ import annotations

import numpy as np

from benchmarks.contest.models import RandomModel
from metasched.cost.features import NAMES


def test_the_random_model_repeats_by_seed() -> None:
    x = np.zeros((5, len(NAMES)), np.float32)
    np.testing.assert_array_equal(RandomModel(3).predict(x), RandomModel(3).predict(x))
    assert not np.array_equal(RandomModel(3).predict(x), RandomModel(4).predict(x))
