"""Convolutions with moved taps, against loops of NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.support.between import between
from tests.support.onnx_models import random, run


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


def test_taps_far_outside_read_nothing() -> None:
    x, w = random(1, 2, 4, 4), random(3, 2, 1, 1)
    offsets = np.zeros((1, 2, 4, 4), np.float32)
    offsets[0, 0, 0] = [-1e9, 1e9, np.inf, -np.inf]
    offsets[0, 1, 1] = [-2, 0, 1, 4]
    found = run("DeformConv", x, w, offsets)
    assert not found[0, :, 0].any()
    np.testing.assert_allclose(found[0, :, 1, 1:3], (w[:, :, 0, 0] @ x[0, :, 1])[:, [1, 3]], rtol=1e-5)
    assert not found[0, :, 1, [0, 3]].any()


def test_beside_the_last_element_there_is_nothing() -> None:
    """What is outside is no element times zero, which infinity would make NaN."""
    x, w = np.zeros((1, 1, 2, 2), np.float32), np.ones((1, 1, 1, 1), np.float32)
    x[0, 0, 1, 1] = np.inf
    offsets = np.full((1, 2, 2, 2), 0.5, np.float32)
    assert run("DeformConv", x, w, offsets).tolist() == [[[[np.inf, np.inf], [np.inf, np.inf]]]]
