"""Transposed convolutions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, run, value


def scattered(x: Any, w: Any, strides: list[int], pads: list[int], dilation: int, group: int, more: int) -> Any:
    """A transposed convolution in the plainest way: each input is added to the outputs that it reaches."""
    n, channels, *spatial = x.shape
    per, kernel = w.shape[1], w.shape[2:]
    rank = len(spatial)
    whole = [s * (e - 1) + more + dilation * (k - 1) + 1 for s, e, k in zip(strides, spatial, kernel, strict=True)]
    out = np.zeros((n, per * group, *whole))
    for c in range(channels):
        first = c // (channels // group) * per
        for place in np.ndindex(*spatial, *kernel):
            to = tuple(place[d] * strides[d] + place[rank + d] * dilation for d in range(rank))
            out[(slice(None), slice(first, first + per), *to)] += (
                x[(slice(None), c, *place[:rank])][:, None] * w[(c, slice(None), *place[rank:])]
            )
    kept = tuple(slice(pads[d], whole[d] - pads[rank + d]) for d in range(rank))
    return out[(slice(None), slice(None), *kept)]


@pytest.mark.parametrize(
    ("inputs", "filters", "group", "strides", "pads", "dilation", "more"),
    [
        ((1, 3, 4, 3), (3, 2, 4, 4), 1, [2, 2], [1, 1, 1, 1], 1, 0),
        ((2, 3, 4), (3, 2, 6), 1, [3], [2, 1], 1, 0),
        ((1, 2, 3, 3), (2, 3, 2, 2), 1, [2, 2], [0] * 4, 1, 0),
        ((1, 3, 4, 3), (3, 1, 4, 2), 3, [2, 1], [3, 0, 3, 1], 1, 0),
        ((1, 4, 3, 4), (4, 2, 4, 1), 2, [4, 1], [0] * 4, 1, 0),
        ((1, 2, 5, 4), (2, 2, 3, 3), 1, [1, 1], [1, 2, 0, 1], 2, 0),
        ((1, 2, 4, 4), (2, 2, 3, 3), 1, [2, 2], [1, 1, 1, 1], 1, 1),
        ((1, 2, 4, 4), (2, 2, 4, 4), 1, [2, 2], [1, 1, 0, 0], 1, 0),
        ((1, 2, 4, 4), (2, 2, 4, 4), 1, [2, 2], [1, 1, 2, 2], 1, 1),
        ((1, 2, 6), (2, 2, 2), 1, [2], [5, 3], 1, 0),
        ((1, 3, 4, 4), (3, 1, 2, 2), 3, [2, 2], [0] * 4, 1, 0),
        ((1, 2, 2, 3, 2), (2, 2, 2, 2, 2), 1, [2, 2, 1], [0] * 6, 1, 0),
        ((1, 2, 4, 3), (2, 16, 3, 3), 1, [2, 2], [1, 0, 1, 0], 1, 1),
        ((1, 2, 4, 3), (2, 2, 4, 3), 1, [2, 3], [1, 2, 0, 1], 2, 0),
        ((1, 2, 4), (2, 9, 6), 1, [3], [2, 3], 2, 2),
        ((1, 4, 5), (4, 2, 7), 2, [6], [1, 2], 4, 1),
        ((1, 2, 3), (2, 2, 2), 1, [4], [0, 0], 1, 3),
        ((1, 3, 2, 3, 2), (3, 1, 3, 2, 3), 3, [2, 1, 2], [1, 0, 1, 1, 0, 1], 1, 1),
    ],
)
def test_transposed_convolutions(
    inputs: tuple[int, ...],
    filters: tuple[int, ...],
    group: int,
    strides: list[int],
    pads: list[int],
    dilation: int,
    more: int,
) -> None:
    x, w, bias = random(*inputs), random(*filters, seed=1), random(filters[1] * group, seed=2)
    rank = len(strides)
    settings = {"strides": strides, "pads": pads, "dilations": [dilation] * rank, "group": group}
    expected = scattered(x, w, strides, pads, dilation, group, more) + bias.reshape(-1, *[1] * rank)
    made = run("ConvTranspose", x, w, bias, constants=(1, 2), output_padding=[more] * rank, **settings)
    assert made.shape == expected.shape
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("filters", "settings"),
    [
        ((2, 3, 3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
        ((2, 4, 4, 4), {"strides": [2, 2], "dilations": [2, 2], "pads": [1] * 4}),
        ((2, 16, 3, 3), {"strides": [3, 3], "dilations": [2, 2], "pads": [1] * 4}),
    ],
)
def test_sums_that_lie_together_have_no_terms_by_remainders(filters: tuple[int, ...], settings: dict[str, Any]) -> None:
    """Neighbours along a row have the same terms: vectors can run along it."""
    nodes = [node("ConvTranspose", "X W", **settings)]
    made = ms.load_onnx(model(nodes, [value("X", random(1, 2, 5, 5))], constants={"W": random(*filters)}))
    (sums,) = [line for line in str(made.graph).splitlines() if "sum[" in line]
    assert "== 0" not in sums
