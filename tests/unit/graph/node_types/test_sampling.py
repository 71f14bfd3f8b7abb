"""Sampling at places that are data, against NumPy."""

from __future__ import annotations

import numpy as np

from tests.support.onnx_models import random, run


def test_sampling_at_the_places_of_the_elements_gives_them() -> None:
    x = random(1, 2, 2, 3)
    rows, columns = np.meshgrid(np.linspace(-1, 1, 2), np.linspace(-1, 1, 3), indexing="ij")
    grid = np.stack([columns, rows], -1)[None].astype(np.float32)
    for mode in ("linear", "nearest", "cubic"):
        np.testing.assert_allclose(run("GridSample", x, grid, align_corners=1, mode=mode), x, rtol=1e-4, atol=1e-5)
