"""What a model of one's own predicts is checked before a search sorts by it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from metasched.cost.features import NAMES, Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.errors import MetaschedError
from metasched.search.checked_model import CheckedModel

FEATURES = np.zeros((2, len(NAMES)), np.float32)


class Says:
    """A model that predicts what it is given."""

    kind = "says"

    def __init__(self, scores: object) -> None:
        self.scores = scores

    def fit(self, own: TaskTimes) -> None: ...

    def predict(self, features: Features) -> Any:
        return self.scores


@pytest.mark.parametrize("scores", [[1, 2], (1.0, 2.0), np.array([1, 2]), np.array([1.0, 2.0], np.float32)])
def test_scores_may_be_numbers_of_any_kind(scores: object) -> None:
    found = CheckedModel(Says(scores)).predict(FEATURES)
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("scores", "predicted"),
    [
        (None, "None"),
        ("fast", "'fast'"),
        ([[1.0], [2.0, 3.0]], r"\[\[1.0\], \[2.0, 3.0\]\]"),
        (np.zeros(3), r"an array of shape \(3,\)"),
        (np.zeros((2, 1)), r"an array of shape \(2, 1\)"),
        (1.0, r"an array of shape \(\)"),
        ([0.0, np.nan], "nan among its scores"),
        ([np.inf, 0.0], "inf among its scores"),
    ],
)
def test_what_is_no_score_for_each_candidate_is_refused(scores: object, predicted: str) -> None:
    with pytest.raises(MetaschedError, match=f"the model Says predicted {predicted} for 2 candidates\n  hint: a score"):
        CheckedModel(Says(scores)).predict(FEATURES)


def test_whatever_else_a_model_has_is_there_and_it_can_be_copied() -> None:
    model = CheckedModel(Says([]))
    assert copy.copy(model).kind == "says"
    assert not hasattr(model, "teach")
