"""Columns of tables, against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import integers, random
from tests.support.table_models import check_table_node, table_node, table_refusal

X = random(7, 4)


@pytest.mark.parametrize("numbers", [[0.5], [0.5, 1.0, -2.0, 3.0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaler(dtype: Any, numbers: list[float]) -> None:
    found = table_node("Scaler", X.astype(dtype), offset=numbers, scale=numbers[::-1])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, (X - np.float32(numbers)) * np.float32(numbers[::-1]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str) -> None:
    x = X.copy()
    x[2] = 0
    check_table_node("Normalizer", x, norm=norm)


@pytest.mark.parametrize("values", [[9.0], [1.0, 2.0, 3.0, 4.0]])
@pytest.mark.parametrize("missing", [float("nan"), 0.0])
def test_imputer(missing: float, values: list[float]) -> None:
    x = X.copy()
    x[1, 2] = x[4, 0] = missing
    check_table_node("Imputer", x, imputed_value_floats=values, replaced_value_float=missing)


def test_imputer_of_integers() -> None:
    check_table_node("Imputer", integers(5, 3).astype(np.int64), imputed_value_int64s=[7], replaced_value_int64=-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_binarizer(dtype: Any) -> None:
    check_table_node("Binarizer", (X * 3).astype(dtype), threshold=0.5)


@pytest.mark.parametrize("index", [[2, 0], [1]])
def test_array_feature_extractor(index: list[int]) -> None:
    check_table_node("ArrayFeatureExtractor", X, np.array(index))
    check_table_node("ArrayFeatureExtractor", X[0], np.array(index))


@pytest.mark.parametrize("sizes", [[4, 2], [3, 2], [4, 5]])
def test_feature_vectorizer(sizes: list[int]) -> None:
    check_table_node("FeatureVectorizer", X, X[:, :2].copy(), inputdimensions=sizes)


def test_numbers_that_do_not_fit_the_columns_are_refused() -> None:
    assert "2 numbers `offset`" in table_refusal("Scaler", X, offset=[1.0, 2.0], scale=[1.0])
    assert "3 `imputed_value_floats`" in table_refusal("Imputer", X, imputed_value_floats=[1.0, 2.0, 3.0])
