"""What code adds is judged on families that were not learned from."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.yardstick.code_features import JOINED_NAMES
from benchmarks.yardstick.lowered import LoweredTask, difference, judge_columns
from metasched.cost.features import NAMES


def made(family: str, seed: int, count: int = 48) -> LoweredTask:
    """A task whose times follow one feature of the code, which the program's features say nothing of."""
    rng = np.random.default_rng(seed)
    features = np.zeros((count, len(JOINED_NAMES)), np.float32)
    features[:, len(NAMES)] = rng.random(count) * 8
    return LoweredTask(family, features, np.exp2(features[:, len(NAMES)] - 20))


def test_only_code_tells_what_only_code_has() -> None:
    tasks = [made(family, n) for n, family in enumerate("aabbcc")]
    of_program, both = judge_columns(tasks, slice(len(NAMES))), judge_columns(tasks, slice(None))
    assert of_program == pytest.approx(0.5)
    assert both.shape == (6, 2)
    assert (both[:, 0] > 0.9).all()
    low, high = difference(of_program, both)
    assert 0.4 < low[0] <= high[0] <= 0.5


def test_a_family_alone_is_not_judged() -> None:
    assert np.isnan(judge_columns([made("a", 0), made("a", 1)], slice(None))).all()
