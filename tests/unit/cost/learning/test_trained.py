"""A trained model as text: the same when it is read again, and refused where it does not fit."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.forest import Forest, Tree
from metasched.cost.learning.trained import (
    MOST_BYTES,
    SHIPPED_FILE,
    UNTRAINED_MODEL,
    ModelError,
    TrainedModel,
    read_model,
    read_shipped_model,
)
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows

ROOT = Path(__file__).parents[4]
SMALL = TrainedModel(
    Forest(
        (
            Tree(((3, np.float32(0.1), 0b11111110), (5, np.float32(1 / 3), 0b11111100)), (0.25, -1.5, 1e-7)),
            Tree((), (0.125,)),
        )
    ),
    -31.5,
    tiles=Forest((Tree(((8, np.float32(2.5), 0b11111110),), (-0.5, 0.75)),)),
)


def test_a_model_is_the_same_when_it_is_read_again() -> None:
    assert TrainedModel.loads(SMALL.dumps()) == SMALL
    assert TrainedModel.loads(UNTRAINED_MODEL.dumps()) == UNTRAINED_MODEL


def test_the_text_names_the_features_that_it_uses() -> None:
    assert json.loads(SMALL.dumps())["features"] == [NAMES[3], NAMES[5], NAMES[8]]
    other = SMALL.dumps().replace(f'"{NAMES[5]}"', f'"{NAMES[7]}"')
    assert {node[0] for node in TrainedModel.loads(other).forest.trees[0].nodes} == {3, 7}


def test_the_second_forest_is_for_tile_registers() -> None:
    features = np.zeros((3, len(NAMES)), np.float32)
    features[:, 8] = 9.0
    plain = replace(SMALL, tiles=Forest(())).log_seconds(features)
    assert np.array_equal(SMALL.log_seconds(features), plain)
    features[1, NAMES.index("s0.flops_per_operation")] = 14.0  # 16 x 16 x 32 products
    assert np.array_equal(SMALL.log_seconds(features) - plain, [0.0, 0.75, 0.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a saved cost model"),
        ("[]", "not a saved cost model"),
        (SMALL.dumps()[:-4], "not a saved cost model"),
        (SMALL.dumps().replace('"format": 4', '"format": 1'), "has format 1, and 4 is read"),
        (SMALL.dumps().replace(NAMES[5], "s0.old"), "a feature `s0.old`, which is not there"),
    ],
)
def test_a_model_of_something_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        TrainedModel.loads(text)
    assert "benchmarks.yardstick.train" in str(caught.value)


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(SMALL.dumps()), **fields})


NODE = [0, 0.5, 254]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "not a saved cost model"),
        (changed(offset=10**400), "offset is a finite number"),
        (SMALL.dumps().replace("-31.5", "NaN"), "NaN is no number"),
        (changed(offset=1e39), "offset is a finite number"),
        (changed(offset=True), "offset is a finite number"),
        (changed(more=1), "`more` is nothing that a model has"),
        (changed(features=[NAMES[3], NAMES[3]]), "a feature is there twice"),
        (changed(gains=[1.0]), "`gains` has a number for each feature"),
        (changed(gains=[1.0, -1.0]), "`gains` has a number for each feature"),
        (changed(trees=[[[NODE], [1.0]]]), "one value more than conditions"),
        (changed(trees=[[[[-1, 0.5, 254]], [1.0, 2.0]]]), "a feature by position"),
        (changed(trees=[[[[3, 0.5, 254]], [1.0, 2.0]]]), "a feature by position"),
        (changed(trees=[[[[0, 0.5, 256]], [1.0, 2.0]]]), "8 bits"),
        (changed(trees=[[[NODE] * 8, [1.0] * 9]]), "conditions are a list of at most 7"),
        (changed(trees=[[[], [1.0]]] * 10_001), "trees are a list of at most 10000"),
        (changed(tasks=[["hash", "\x1b[2J", 3]]), "can be printed"),
        (changed(tasks=[["hash", "name", -1]]), "a task is"),
        (changed(held_out={"pairs": "many"}), "a figure is a finite number"),
    ],
)
def test_what_a_stranger_may_have_written_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        TrainedModel.loads(text)


def test_a_file_that_is_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for data, message in (
        (b" " * (MOST_BYTES + 1), "longer than"),
        (b"\xff", "it is not text"),
        (b"{}", "no `format`"),
    ):
        path.write_bytes(data)
        with pytest.raises(ModelError, match=rf"model\.json: .*{message}"):
            read_model(path)


def test_predicting_imports_no_lightgbm() -> None:
    model = "from metasched.cost.learning.trained import read_shipped_model; read_shipped_model()"
    code = f"import sys, metasched; {model}; print('lightgbm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_what_is_installed_fits_the_features_and_knows_more_than_the_roofline() -> None:
    """Where this fails after a feature was renamed or removed, `python -m benchmarks.yardstick.train` is to be run."""
    features = FeatureProgram(dense_relu(), COLUMNS, AVX512)(draw_rows(200))
    expected = read_shipped_model().log_seconds(features)
    assert np.isfinite(expected).all()
    assert np.corrcoef(expected, -analytic_score(features))[0, 1] > 0.7
    assert read_shipped_model().forest.trees
    assert read_shipped_model() == TrainedModel.loads(SHIPPED_FILE.read_text())
    assert read_shipped_model().dumps() == SHIPPED_FILE.read_text()
    assert SHIPPED_FILE.stat().st_size < 1e6
