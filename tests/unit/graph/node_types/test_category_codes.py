"""Categories, against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import metasched as ms
from tests.support.onnx_models import integers, random
from tests.support.table_models import check_table_node, table_model, table_node, table_refusal

X = integers(5, 4, low=-2, high=4).astype(np.int64)


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_one_hot_encoder(dtype: Any) -> None:
    """What is of no category has zeros."""
    check_table_node("OneHotEncoder", X.astype(dtype), cats_int64s=[3, -1, 0, 100000], zeros=1)


@pytest.mark.parametrize("keys", [[-2, 0, 1], [2, 0, 3], [-2, 0, 5000]], ids=["a table", "from zero", "a search"])
def test_label_encoder_of_integers(keys: list[int]) -> None:
    check_table_node("LabelEncoder", X, keys_int64s=keys, values_int64s=[4, 5, 6], default_int64=-9)
    check_table_node("LabelEncoder", X, keys_int64s=keys, values_floats=[4.0, 5.5, 6.0], default_float=0.25)


def test_tables_of_like_sizes_are_one_program() -> None:
    """As those of the leaves of many small trees."""
    networks = (
        ms.load_onnx(table_model("LabelEncoder", [X], keys_int64s=keys, values_int64s=keys))
        for keys in ([2, 5], [7, 1, 3], [0, 4, 5, 6])
    )
    programs = {str(row.task.program) for network in networks for row in network.tasks()}
    assert len(programs) == 1


def test_label_encoder_of_floats() -> None:
    x = X.astype(np.float32)
    check_table_node("LabelEncoder", x, keys_floats=[-2.0, 0.5, 1.0], values_int64s=[4, 5, 6])
    x[0, 0] = np.nan
    given = {"keys_floats": [float("nan"), 1.0], "values_floats": [7.0, 8.0], "default_float": 9.0}
    for version, wanted in ((2, 9.0), (4, 7.0)):
        assert table_node("LabelEncoder", x, version=version, **given)[0, 0] == wanted


def test_label_encoder_of_tensors() -> None:
    keys, values, default = np.array([-2, 1]), np.array([1.5, 2.5]), np.array([0.25])
    found = table_node(
        "LabelEncoder",
        X,
        version=4,
        keys_tensor=numpy_helper.from_array(keys),
        values_tensor=numpy_helper.from_array(values),
        default_tensor=numpy_helper.from_array(default),
    )
    np.testing.assert_array_equal(found, np.where(X == -2, 1.5, np.where(X == 1, 2.5, 0.25)))


def test_zip_map_gives_scores_as_they_are() -> None:
    x = random(5, 3)
    np.testing.assert_array_equal(table_node("ZipMap", x, classlabels_strings=["a", "b", "c"]), x)
    assert "it has 2 labels" in table_refusal("ZipMap", x, classlabels_int64s=[0, 1])


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LabelEncoder", {"keys_int64s": [1, 2], "values_strings": ["a", "b"]}),
        ("OneHotEncoder", {"cats_strings": ["a", "b"]}),
        ("CategoryMapper", {"cats_int64s": [1, 2], "cats_strings": ["a", "b"]}),
    ],
)
def test_texts_are_refused(op: str, attributes: dict[str, Any]) -> None:
    assert "it reads or writes texts" in table_refusal(op, X, **attributes)
