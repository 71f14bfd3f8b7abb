"""Linear models, against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import integers, random
from tests.support.table_models import check_table_node, table_node, table_refusal

REGRESSOR, CLASSIFIER = "LinearRegressor", "LinearClassifier"
X = random(20, 4)


def coefficients(count: int) -> list[float]:
    return random(count, seed=7).tolist()


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("x", [X, integers(9, 4)], ids=["floats", "integers"])
def test_regressor(x: Any, targets: int) -> None:
    if x.dtype != np.float32:
        found = table_node(REGRESSOR, x, coefficients=coefficients(4), intercepts=[0.5])
        np.testing.assert_allclose(found[:, 0], x @ np.float32(coefficients(4)) + 0.5, rtol=1e-5, atol=1e-5)
        return
    check_table_node(
        REGRESSOR, x, targets=targets, coefficients=coefficients(4 * targets), intercepts=coefficients(targets)
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(("labels", "sums"), [([5, 7, 9], 3), ([0, 1], 2), ([3, 8], 1)])
def test_classifier(labels: list[int], sums: int, transform: str) -> None:
    check_table_node(
        CLASSIFIER,
        X,
        outputs=2,
        coefficients=coefficients(4 * sums),
        intercepts=coefficients(sums),
        classlabels_ints=labels,
        post_transform=transform,
    )


def test_probit_is_the_inverse_of_a_normal_distribution() -> None:
    """By the approximation that runtimes have: of 1/2 it is 0, of .8413 nearly 1."""
    x = np.float32([[0.5], [0.84134], [0.15866]])
    found = table_node(REGRESSOR, x, coefficients=[1.0], intercepts=[0.0], post_transform="PROBIT")
    np.testing.assert_allclose(found[:, 0], [0, 1, -1], atol=5e-3)


def test_coefficients_that_do_not_fit_are_refused() -> None:
    assert "5 coefficients for 1 sums of 4 columns" in table_refusal(REGRESSOR, X, coefficients=[1.0] * 5)
    assert "2 intercepts" in table_refusal(REGRESSOR, X, targets=3, coefficients=[1.0] * 12, intercepts=[1.0, 2.0])
