"""Regions of images and moved taps, against loops of NumPy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run

Array = np.ndarray[Any, Any]


def between(x: Array, place: tuple[float, float]) -> list[Any]:
    """The four elements of a plane around a place, each times its weight; what is outside is zero."""
    out = []
    for corner in product((0, 1), (0, 1)):
        at = [int(np.floor(p)) + c for p, c in zip(place, corner, strict=True)]
        weight = np.prod([1 - abs(p - a) for p, a in zip(place, at, strict=True)])
        inside = all(0 <= a < n for a, n in zip(at, x.shape[-2:], strict=True))
        out.append(weight * (x[..., at[0], at[1]] if inside else np.zeros(x.shape[:-2])))
    return out


def test_taps_at_whole_offsets_are_those_of_a_convolution() -> None:
    x, w = random(1, 2, 6, 6), random(3, 2, 3, 3)
    wanted = run("Conv", x, w, pads=[1, 1, 1, 1])
    np.testing.assert_allclose(
        run("DeformConv", x, w, np.zeros((1, 18, 6, 6), np.float32), pads=[1, 1, 1, 1]), wanted, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("masked", [False, True])
def test_taps_are_moved_by_offsets(masked: bool) -> None:
    x, w, bias = random(2, 4, 6, 5), random(6, 2, 3, 2, seed=1), random(6, seed=2)
    offsets = random(2, 2 * 3 * 2 * 2, 3, 2, seed=3) * 2
    mask = random(2, 2 * 3 * 2, 3, 2, seed=4) if masked else None
    moved = offsets.reshape(2, 2, 3, 2, 2, 3, 2)
    factors = np.ones((2, 2, 3, 2, 3, 2)) if mask is None else mask.reshape(2, 2, 3, 2, 3, 2)
    wanted = np.zeros((2, 6, 3, 2)) + bias[:, None, None]
    for n, o, c, r, s, i, j in product(*map(range, (2, 6, 2, 3, 2, 3, 2))):
        channel = o // 3 * 2 + c
        at = (
            i * 2 - 1 + r + moved[n, channel // 2, r, s, 0, i, j],
            j * 2 + s * 2 + moved[n, channel // 2, r, s, 1, i, j],
        )
        value = sum(between(x[n, channel], at)) * factors[n, channel // 2, r, s, i, j]
        wanted[n, o, i, j] += w[o, c, r, s] * value
    how = {"group": 2, "offset_group": 2, "strides": [2, 2], "pads": [1, 0, 1, 0], "dilations": [1, 2]}
    np.testing.assert_allclose(run("DeformConv", x, w, offsets, bias, mask, **how), wanted, rtol=1e-4, atol=1e-4)


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
