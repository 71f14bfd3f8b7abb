"""Sampling at places that are data, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, run, value


def test_sampling_at_the_places_of_the_elements_gives_them() -> None:
    x = random(1, 2, 2, 3)
    rows, columns = np.meshgrid(np.linspace(-1, 1, 2), np.linspace(-1, 1, 3), indexing="ij")
    grid = np.stack([columns, rows], -1)[None].astype(np.float32)
    for mode in ("linear", "nearest", "cubic"):
        np.testing.assert_allclose(run("GridSample", x, grid, align_corners=1, mode=mode), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("sizes", "corners"), [((3, 4), 0), ((3, 4), 1), ((2, 3, 4), 0), ((2, 1, 4), 1)])
def test_places_of_an_affine_map(batch: int, sizes: tuple[int, ...], corners: int) -> None:
    dims = len(sizes)
    theta = random(batch, dims, dims + 1)
    lines = [
        (np.linspace(-1, 1, n) if n > 1 else np.zeros(1)) if corners else (2 * np.arange(n) + 1) / n - 1 for n in sizes
    ]
    own = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)], -1)
    expected = np.einsum("ncm,...m->n...c", theta, own)
    got = run("AffineGrid", theta, np.array([batch, 5, *sizes]), align_corners=corners, constants=(1,), opset=20)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_map_of_other_dimensions() -> None:
    with pytest.raises(ms.MetaschedError, match=r"it maps the places of \[1, 5, 3, 4\] elements by f32\[1, 3, 4\]"):
        run("AffineGrid", random(1, 3, 4), np.array([1, 5, 3, 4]), constants=(1,), opset=20)


@pytest.mark.parametrize(
    ("mode", "sizes"), [("nearest", (4, 5)), ("linear", (4, 5)), ("cubic", (4, 5)), ("nearest", (2, 3, 4))]
)
def test_many_channels_are_sampled_as_few_are(mode: str, sizes: tuple[int, ...]) -> None:
    """Side by side, as they are read at the same places: the graph has them in this order."""
    x, grid = random(2, 12, *sizes), random(2, *(5,) * len(sizes), len(sizes))
    parts = [run("GridSample", x[:, first : first + 6], grid, mode=mode) for first in (0, 6)]
    np.testing.assert_allclose(run("GridSample", x, grid, mode=mode), np.concatenate(parts, 1), rtol=1e-4, atol=1e-5)


def test_channels_share_places_and_nothing_outside_is_read() -> None:
    """Where an element is in the input is one number, and what a place takes from outside is zero, not a part of it."""
    x = random(1, 3, 4, 5)
    x[..., 0, :] = x[..., -1, :] = np.inf
    grid = np.array([[0.0, -4.0], [0.0, 3e20], [-3e20, 0.0], [np.nan, 0.0], [0.1, 0.05]], np.float32).reshape(
        1, 1, 5, 2
    )
    network = ms.load_onnx(model([node("GridSample", "X G")], [value("X", x), value("G", grid)], opset=20))
    made = network(x, grid)
    np.testing.assert_array_equal(made[..., :4], np.zeros((1, 3, 1, 4), np.float32))
    assert np.isfinite(made).all()
    assert "i32[1, 2, 2, 1, 5]" in str(network.graph)
