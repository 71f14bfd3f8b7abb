"""Determinants, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5, 5), (2, 3, 8, 8)])
def test_determinants(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(*shape, dtype=dtype)
    np.testing.assert_allclose(run("Det", x), np.linalg.det(x), rtol=1e-3 if dtype == np.float32 else 1e-9)


def test_rows_change_places() -> None:
    x = np.float32([[[0, 2, 0], [0, 0, 3], [4, 0, 0]], [[0, 1, 0], [1, 0, 0], [0, 0, 1]]])
    np.testing.assert_array_equal(run("Det", x), [24, -1])


def test_singular_matrices_have_none() -> None:
    x = np.zeros((2, 3, 3), np.float32)
    x[1] = [[1, 2, 3], [2, 4, 6], [0, 0, 1]]
    np.testing.assert_array_equal(run("Det", x), [0, 0])


def test_what_is_not_square_or_large_is_refused() -> None:
    for shape, reason in (((2, 3), "no square matrices"), ((65, 65), "matrices have 65 rows")):
        with pytest.raises(ms.RefusedModel, match=reason):
            run("Det", np.zeros(shape, np.float32))
