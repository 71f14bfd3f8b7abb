"""Resampled tensors, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import random, run


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_doubling_a_size(mode: str) -> None:
    x = random(1, 1, 2, 3)
    made = run(
        "Resize",
        x,
        None,
        np.float32([1, 1, 2, 2]),
        constants=(2,),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    assert made.shape == (1, 1, 4, 6)
    np.testing.assert_allclose(made[..., ::2, ::2], x, rtol=1e-6)
    between = (x[..., 0] + x[..., 1]) / 2 if mode == "linear" else x[..., 0]
    np.testing.assert_allclose(made[..., ::2, 1], between, rtol=1e-6)
