"""The largest elements of parts of regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run


def expected(x: Any, regions: Any, parts: tuple[int, int], scale: float) -> Any:
    """Fast R-CNN's pooling: corners are rounded, halves upwards, and parts may overlap by a row."""
    out = np.zeros((len(regions), x.shape[1], *parts), x.dtype)
    for region, (image, *corners) in zip(out, regions, strict=True):
        left, top, right, bottom = np.floor(np.float32(corners) * np.float32(scale) + 0.5).astype(int)
        bounds = []
        for first, last, count, extent in ((top, bottom, parts[0], x.shape[2]), (left, right, parts[1], x.shape[3])):
            size = np.float32(max(last - first + 1, 1)) / np.float32(count)
            edges = [(np.floor(n * size) + first, np.ceil((n + 1) * size) + first) for n in range(count)]
            bounds.append([tuple(np.clip(edge, 0, extent).astype(int)) for edge in edges])
        for i, (top, bottom) in enumerate(bounds[0]):
            for j, (left, right) in enumerate(bounds[1]):
                if top < bottom and left < right:
                    region[:, i, j] = x[int(image), :, top:bottom, left:right].max((1, 2))
    return out


@pytest.mark.parametrize(("parts", "scale"), [((3, 2), 0.7), ((1, 1), 1.0), ((5, 4), 0.5)])
def test_parts_of_regions(parts: tuple[int, int], scale: float) -> None:
    x = random(2, 3, 10, 12)
    regions = np.float32([[0, 1, 1, 6, 6], [1, 0, 2, 3, 12], [0, -4, -4, 1, 1], [1, 30, 30, 40, 40], [1, 5, 5, 2, 2]])
    found = run("MaxRoiPool", x, regions, pooled_shape=parts, spatial_scale=scale)
    np.testing.assert_array_equal(found, expected(x, regions, parts, scale))


def test_what_is_no_region_is_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="its inputs are"):
        run("MaxRoiPool", random(2, 3, 10, 12), random(2, 4), pooled_shape=[2, 2])
