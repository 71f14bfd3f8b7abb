"""A trained model as text: the same when it is read again, and refused where it does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.forest import Forest, Tree
from metasched.cost.trained import SHIPPED, UNTRAINED, ModelError, TrainedModel, shipped
from tests.support.targets import AVX512

from .conftest import COLUMNS, dense_relu, draw_rows

SMALL = TrainedModel(
    Forest(
        (
            Tree(((3, np.float32(0.1), 0b11111110), (5, np.float32(1 / 3), 0b11111100)), (0.25, -1.5, 1e-7)),
            Tree((), (0.125,)),
        )
    ),
    -31.5,
)


def test_a_model_is_the_same_when_it_is_read_again() -> None:
    assert TrainedModel.loads(SMALL.dumps()) == SMALL
    assert TrainedModel.loads(UNTRAINED.dumps()) == UNTRAINED


def test_the_text_names_the_features_that_it_uses() -> None:
    assert json.loads(SMALL.dumps())["features"] == [NAMES[3], NAMES[5]]
    other = SMALL.dumps().replace(f'"{NAMES[5]}"', f'"{NAMES[7]}"')
    assert {node[0] for node in TrainedModel.loads(other).forest.trees[0].nodes} == {3, 7}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a saved cost model"),
        ("[]", "not a saved cost model"),
        (SMALL.dumps()[:-4], "not a saved cost model"),
        (SMALL.dumps().replace('"format": 2', '"format": 1'), "has format 1, and 2 is read"),
        (SMALL.dumps().replace(NAMES[5], "s0.old"), "a feature `s0.old`, which is not there"),
    ],
)
def test_a_model_of_something_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        TrainedModel.loads(text)
    assert "benchmarks.yardstick.train" in str(caught.value)


def test_what_is_installed_fits_the_features_and_knows_more_than_the_roofline() -> None:
    """Where this fails after a feature was renamed or removed, `python -m benchmarks.yardstick.train` is to be run."""
    features = FeatureProgram(dense_relu(), COLUMNS, AVX512)(draw_rows(200))
    expected = shipped().log_seconds(features)
    assert np.isfinite(expected).all()
    assert np.corrcoef(expected, -analytic_score(features))[0, 1] > 0.7
    assert shipped().forest.trees
    assert shipped() == TrainedModel.loads(SHIPPED.read_text())
    assert shipped().dumps() == SHIPPED.read_text()
    assert SHIPPED.stat().st_size < 1e6
