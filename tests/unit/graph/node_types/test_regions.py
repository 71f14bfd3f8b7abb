"""Regions of images, against loops of NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.between import between
from tests.support.onnx_models import random, run

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("half_pixel", [True, False])
def test_regions_are_looked_at_between_elements(mode: str, half_pixel: bool) -> None:
    x, scale, cells, ratio = random(2, 3, 8, 9), 0.5, (2, 3), 2
    regions = np.float32([[1, 2, 11, 13], [-6, 0, 2, 4], [3, 3, 3.5, 3.2], [10, 8, 30, 40]])
    images = np.int64([0, 1, 1, 0])
    wanted = np.zeros((4, 3, *cells))
    for region, h, w in product(range(4), *map(range, cells)):
        corners = regions[region].astype(np.float64) * scale - (0.5 if half_pixel else 0)
        first, last = corners[1::-1], corners[:1:-1]
        size = last - first if half_pixel else np.maximum(last - first, 1)
        terms = []
        for step in product(range(ratio), range(ratio)):
            place = first + size * (np.array([h, w]) + (np.array(step) + 0.5) / ratio) / cells
            if ((place < -1) | (place > x.shape[2:])).any():
                terms += [np.zeros(3)] * 4
                continue
            terms += between(x[images[region]], tuple(np.clip(place, 0, np.array(x.shape[2:]) - 1)))
        wanted[region, :, h, w] = sum(terms) / ratio**2 if mode == "avg" else np.max(terms, axis=0)
    name = "half_pixel" if half_pixel else "output_half_pixel"
    how = {"output_height": 2, "output_width": 3, "sampling_ratio": ratio, "spatial_scale": scale, "mode": mode}
    found = run("RoiAlign", x, regions, images, coordinate_transformation_mode=name, **how)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_number_of_places_that_depends_on_regions_is_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="set `sampling_ratio`"):
        run("RoiAlign", random(1, 1, 4, 4), random(1, 4), np.zeros(1, np.int64))
