"""Shapes, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.onnx_models import random, run

X = random(2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_shapes_are_views_that_compute_nothing() -> None:
    np.testing.assert_array_equal(run("Reshape", X, ints(0, -1), constants=(1,)), X.reshape(2, 12))
    np.testing.assert_array_equal(run("Flatten", X, axis=2), X.reshape(6, 4))
    np.testing.assert_array_equal(run("Unsqueeze", X, ints(0, -1), constants=(1,)), X.reshape(1, 2, 3, 4, 1))
    np.testing.assert_array_equal(run("Squeeze", X[:, :1], ints(1), constants=(1,)), X[:, 0])


def test_what_is_known_of_shapes() -> None:
    np.testing.assert_array_equal(run("Shape", X, start=-2), [3, 4])
    assert run("Size", X) == 24
    np.testing.assert_array_equal(run("EyeLike", X[0], k=1), np.eye(3, 4, 1))
    made = run("Range", np.int64(7), np.int64(0), np.int64(-3), constants=(0, 1, 2))
    np.testing.assert_array_equal(made, [7, 4, 1])
