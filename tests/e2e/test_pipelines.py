"""The pipelines of examples/pipelines, at small sizes, against NumPy and SciPy."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from metasched.rules.grouping import GROUPED
from numpy.typing import NDArray
from scipy import ndimage

import metasched as ms
from tests.support.rulework import rule

FOLDER = Path(__file__).parents[2] / "examples" / "pipelines"
local_laplacian = runpy.run_path(str(FOLDER / "local_laplacian.py"))["local_laplacian"]
Image = NDArray[Any]
GREY = (0.299, 0.587, 0.114)


def image(*shape: int, dtype: str = "float32", high: float = 1.0) -> Image:
    return (np.random.default_rng(sum(shape)).random(shape) * high).astype(dtype)


def blend(a: Image, b: Image, m: Image) -> Image:
    mixed = a * m[..., None] + b * (1 - m[..., None]) + np.float32(0.5)
    return np.clip(mixed, 0, 255).astype(np.uint8)


def colours(x: Image, matrix: Image, offset: Image) -> Image:
    return np.clip(np.rint(x.astype(np.float32) @ matrix.T + offset), 0, 255).astype(np.uint8)


def blur_rgb(x: Image, k: Image) -> Image:
    h, w, _ = x.shape
    wide = x.astype(np.float64)
    total = sum(k[r, s] * wide[r : h - 4 + r, s : w - 4 + s] for r in range(5) for s in range(5))
    return np.clip(np.asarray(total) + 0.5, 0, 255).astype(np.uint8)


def blur(x: Image) -> Image:
    wide = x.astype(np.int64)
    across = (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) // 3
    return ((across[:-2] + across[1:-1] + across[2:]) // 3).astype(x.dtype)


def unsharp(x: Image, g: Image) -> Image:
    grey = np.tensordot(GREY, x.astype(np.float64), 1)
    smooth = ndimage.correlate1d(ndimage.correlate1d(grey, g, 0, mode="nearest"), g, 1, mode="nearest")
    return (2 * grey - smooth) / grey * x


def harris(x: Image) -> Image:
    grey = np.tensordot(GREY, x.astype(np.float64), 1)
    u, v = (ndimage.sobel(grey, axis)[1:-1, 1:-1] / 12 for axis in (1, 0))
    uu, vv, uv = (ndimage.uniform_filter(a * b, 3)[1:-1, 1:-1] * 9 for a, b in ((u, u), (v, v), (u, v)))
    return uu * vv - uv * uv - 0.04 * (uu + vv) ** 2


def demosaic(x: Image) -> Image:
    p = np.pad(x.astype(np.int64), 1, mode="reflect")
    centre = p[1:-1, 1:-1]
    left, right, up, down = p[1:-1, :-2], p[1:-1, 2:], p[:-2, 1:-1], p[2:, 1:-1]
    across, along, beside = (left + right) // 2, (up + down) // 2, (left + right + up + down) // 4
    corners = (p[:-2, :-2] + p[:-2, 2:] + p[2:, :-2] + p[2:, 2:]) // 4
    i, j = np.indices(x.shape) % 2
    red = np.select([(i == 0) & (j == 0), i == 0, j == 0], [across, centre, corners], along)
    green = np.where(i == j, centre, beside)
    blue = np.select([(i == 0) & (j == 0), i == 0, j == 0], [along, corners, centre], across)
    return np.stack([red, green, blue]).astype(x.dtype)


def bilateral_grid(x: Image, s: int = 8, z: int = 10) -> Image:
    """With the grid's cells filled pixel by pixel, and the interpolation by SciPy."""
    h, w = x.shape
    gh, gw = (h - 1) // s + 2, (w - 1) // s + 2
    rows, columns = (np.clip(np.arange((g + 4) * s) - 2 * s - s // 2, 0, n - 1) for g, n in ((gh, h), (gw, w)))
    padded = x[np.ix_(rows, columns)]
    grid = np.zeros((2, gh + 4, gw + 4, z + 6))
    cell = np.indices(padded.shape) // s
    level = (padded * np.float32(z) + np.float32(0.5)).astype(np.int64) + 2
    for c, value in enumerate((padded.astype(np.float64), np.ones_like(padded))):
        np.add.at(grid[c], (*cell, level), value)
    for axis in (1, 2, 3):
        grid = ndimage.correlate1d(grid, [1, 4, 6, 4, 1], axis, mode="constant")
        grid = np.take(grid, np.arange(2, grid.shape[axis] - 2), axis)
    i, j = np.indices(x.shape) / s
    total, count = (ndimage.map_coordinates(g, (i, j, x.astype(np.float64) * z), order=1, mode="nearest") for g in grid)
    return total / count


def histogram(x: Image) -> Image:
    shares = np.cumsum(np.bincount(x.ravel(), minlength=256)).astype(np.float32) * np.float32(255 / x.size)
    return shares.astype(np.uint8)[x]


BOX = np.full((5, 5), 1 / 32, np.float32)  # sums of bytes are exact
MIXED = np.array([[1, 2, -1], [-2, 1, 2], [1, 1, 1]], np.float32) / 4
FILTER = np.array([0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03], np.float32)
CASES: dict[str, tuple[dict[str, int], tuple[Image, ...], Callable[..., Image]]] = {
    "blur": ({"H": 21, "W": 83}, (image(23, 85, dtype="uint16", high=20000),), blur),
    "blur_rgb": ({"H": 21, "W": 83}, (image(21, 83, 3, dtype="uint8", high=255), BOX), blur_rgb),
    "unsharp": ({"H": 21, "W": 83}, (image(3, 21, 83) + np.float32(0.1), FILTER), unsharp),
    "blend": (
        {"H": 21, "W": 37},
        (image(21, 37, 3, dtype="uint8", high=256), image(21, 37, 3, dtype="uint8", high=256), image(21, 37)),
        blend,
    ),
    "colours": ({"H": 21, "W": 48}, (image(21, 48, 3, dtype="uint8", high=256), MIXED, image(3, high=9)), colours),
    "harris": ({"H": 21, "W": 83}, (image(3, 21, 83),), harris),
    "demosaic": ({"H": 22, "W": 70}, (image(22, 70, dtype="uint16", high=65535),), demosaic),
    "bilateral_grid": ({"H": 21, "W": 37}, (image(21, 37),), bilateral_grid),
    "histogram": ({"H": 21, "W": 83}, (image(21, 83, dtype="uint8", high=200),), histogram),
}


@pytest.mark.parametrize("name", CASES)
def test_pipelines_are_what_numpy_and_scipy_say(name: str) -> None:
    sizes, inputs, expected = CASES[name]
    kernel = as_written(ms.load_program(FOLDER / f"{name}.ms", **sizes))
    np.testing.assert_allclose(kernel(*inputs), expected(*inputs), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["blur_rgb", "blend", "colours"])
def test_a_guess_for_interleaved_colours_is_what_numpy_says(name: str) -> None:
    sizes, inputs, expected = CASES[name]
    np.testing.assert_array_equal(
        ms.compile(ms.load_program(FOLDER / f"{name}.ms", **sizes))(*inputs), expected(*inputs)
    )


def as_written(program: ms.Program) -> ms.Kernel:
    return ms.compile(program, trace=ms.Schedule(program).trace)


@pytest.mark.parametrize("name", ["unsharp", "harris", "demosaic", "bilateral_grid"])
def test_groups_of_pipelines_are_what_numpy_and_scipy_say(name: str) -> None:
    """With strips that the image does not fill, and rows that vectors do not."""
    sizes, inputs, expected = CASES[name]
    program = ms.load_program(FOLDER / f"{name}.ms", **sizes)
    space = ms.space(program, rules=[rule("grouping")(tiny=0), "vectorize"])
    sketch = next(s for s in space if GROUPED in s.structure.values())
    row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
    kernel = ms.compile(program, trace=sketch.trace_of(row))
    np.testing.assert_allclose(kernel(*inputs), expected(*inputs), rtol=2e-4, atol=1e-5)


def expand(x: Image, shape: tuple[int, int]) -> Image:
    """Twice the elements along each dimension, three quarters of the nearer and one of the other, the last repeated."""
    for axis in (0, 1):
        n = np.arange(shape[axis])
        near, other = n // 2, np.clip(n // 2 - 1 + 2 * (n % 2), 0, x.shape[axis] - 1)
        x = np.take(x, near, axis) * 0.75 + np.take(x, other, axis) * 0.25
    return x


def reduce(x: Image) -> Image:
    for axis in (1, 0):
        x = ndimage.correlate1d(x, [0, 0.125, 0.375, 0.375, 0.125], axis, mode="nearest")
        x = np.take(x, np.arange(0, x.shape[axis], 2), axis)
    return x


@pytest.mark.parametrize("depth", [1, 3])
def test_local_laplacian_with_pyramids_of_any_depth(depth: int) -> None:
    """By its definition: what is around each of a few brightnesses is remapped, and the nearest two are mixed."""
    h, w, levels = 19, 26, 4
    x = image(h, w)
    assert x.max() < 1
    grey = [x.astype(np.float64)]
    planes = []
    for k in range(levels):
        level = k / (levels - 1)
        away = (grey[0] - level) * (levels - 1)
        planes.append([grey[0] + 1 / (levels - 1) * away * np.exp(-away * away / 2)])
    for pyramid in (grey, *planes):
        for _ in range(depth - 1):
            pyramid.append(reduce(pyramid[-1]))
    out: Image | None = None
    for n in reversed(range(depth)):
        details = np.stack([p[n] - (0 if out is None else expand(p[n + 1], p[n].shape)) for p in planes])
        place = grey[n] * (levels - 1)
        low = np.clip(place.astype(int), 0, levels - 2)
        i, j = np.indices(place.shape)
        here = details[low, i, j] * (1 - (place - low)) + details[low + 1, i, j] * (place - low)
        out = here if out is None else here + expand(out, here.shape)
    got = as_written(local_laplacian(h, w, depth, levels))(x)
    np.testing.assert_allclose(got, out, atol=1e-5)
