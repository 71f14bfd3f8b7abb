"""Support vector machines, against ONNX's reference where it computes what runtimes do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import random
from tests.support.table_models import check_table_node, table_node, table_refusal

KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]
X = random(20, 4)


def classifier(classes: int, kernel: str = "RBF", **more: Any) -> dict[str, Any]:
    """The attributes of a classifier with some vectors of each class."""
    vectors = [2, 1, 3, 2][:classes]
    count, pairs = sum(vectors), classes * (classes - 1) // 2
    return {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.2, 3.0],
        "vectors_per_class": vectors,
        "support_vectors": random(count * 4, seed=3).tolist(),
        "coefficients": np.linspace(-1, 1.5, count * (classes - 1)).tolist(),
        "rho": random(pairs, seed=5).tolist(),
        "classlabels_ints": list(range(1, classes + 1)),
        **more,
    }


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_regressor(kernel: str, one_class: int) -> None:
    check_table_node(
        "SVMRegressor",
        X,
        kernel_type=kernel,
        kernel_params=[0.3, 0.2, 3.0],
        n_supports=6,
        support_vectors=random(24, seed=3).tolist(),
        coefficients=random(6, seed=4).tolist(),
        rho=[0.1],
        one_class=one_class,
        tolerance=1e-5,
    )


def test_regressor_without_vectors() -> None:
    check_table_node("SVMRegressor", X, coefficients=[1.0, -2.0, 0.5, 3.0], rho=[0.1])


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("kernel", KERNELS)
def test_classifier(kernel: str, classes: int) -> None:
    check_table_node("SVMClassifier", X, outputs=2, tolerance=1e-5, **classifier(classes, kernel))


def test_probabilities_of_two_classes() -> None:
    check_table_node("SVMClassifier", X, outputs=2, **classifier(2, prob_a=[-1.5], prob_b=[0.3]))


def libsvm_shares(pairs: Any) -> Any:
    """LIBSVM's `multiclass_probability`, for the probabilities of one class against another, (classes, classes)."""
    k = len(pairs)
    q = np.array(
        [
            [np.sum(np.delete(pairs[:, t], t) ** 2) if t == j else -pairs[j, t] * pairs[t, j] for j in range(k)]
            for t in range(k)
        ]
    )
    p = np.full(k, 1 / k)
    for _ in range(max(100, k)):
        gradient = q @ p
        error = p @ gradient
        if np.abs(gradient - error).max() < 0.005 / k:
            break
        for t in range(k):
            step = (error - gradient[t]) / q[t, t]
            error = (error + step * (step * q[t, t] + 2 * gradient[t])) / (1 + step) ** 2
            gradient = (gradient + step * q[t]) / (1 + step)
            p[t] += step
            p /= 1 + step
    return p


@pytest.mark.parametrize("classes", [3, 4])
def test_probabilities_of_several_classes_are_those_of_libsvm(classes: int) -> None:
    """ONNX's reference changes what it adds up while it does, for more than two classes."""
    pairs = classes * (classes - 1) // 2
    a, b = -np.arange(1, pairs + 1) / 2, np.linspace(-1, 1, pairs)
    scores = table_node("SVMClassifier", X, outputs=2, **classifier(classes))[1]
    _, found = table_node("SVMClassifier", X, outputs=2, **classifier(classes, prob_a=a.tolist(), prob_b=b.tolist()))
    for row, score in zip(found, scores, strict=True):
        given = np.clip(1 / (1 + np.exp(score * a + b)), 1e-7, 1 - 1e-7)
        matrix = np.zeros((classes, classes))
        matrix[np.triu_indices(classes, 1)] = given
        matrix += np.tril(1 - matrix.T, -1)
        np.testing.assert_allclose(row, libsvm_shares(matrix), atol=1e-5)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


def test_numbers_that_do_not_fit_are_refused() -> None:
    wrong = classifier(3)
    wrong["coefficients"] = wrong["coefficients"][1:]
    assert "coefficients for 6 vectors of 3 classes" in table_refusal("SVMClassifier", X, outputs=2, **wrong)
    wrong = classifier(3)
    wrong["support_vectors"] = wrong["support_vectors"][1:]
    assert "numbers of 6 vectors" in table_refusal("SVMClassifier", X, outputs=2, **wrong)
    wrong = classifier(3, rho=[1.0])
    assert "1 `rho` for the comparisons of 3 classes" in table_refusal("SVMClassifier", X, outputs=2, **wrong)
    assert "`prob_a`" in table_refusal("SVMClassifier", X, outputs=2, **classifier(3, prob_a=[1.0], prob_b=[1.0]))
