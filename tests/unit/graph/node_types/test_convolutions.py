"""Convolutions, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, run, value


def convolved(x: Any, w: Any, stride: int, pad: int, dilation: int, group: int) -> Any:
    """A 2-dimensional convolution in the plainest way."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    rows, columns = w.shape[2:]
    height, width = (
        (n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], (rows, columns), strict=True)
    )
    out = np.zeros((x.shape[0], w.shape[0], height, width))
    per = w.shape[1]
    for o in range(w.shape[0]):
        first = o // (w.shape[0] // group) * per
        for r in range(rows):
            for s in range(columns):
                part = x[:, first : first + per, r * dilation :, s * dilation :][:, :, ::stride, ::stride]
                out[:, o] += np.einsum("nchw,c->nhw", part[:, :, :height, :width], w[o, :, r, s])
    return out


@pytest.mark.parametrize(("channels", "outputs", "group"), [(4, 6, 1), (4, 6, 2), (4, 4, 4)])
@pytest.mark.parametrize(("stride", "pad", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_convolutions(channels: int, outputs: int, group: int, stride: int, pad: int, dilation: int) -> None:
    x, w = random(1, channels, 5, 3), random(outputs, channels // group, 3, 2, seed=1)
    bias = random(outputs, seed=2)
    settings = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2, "group": group}
    expected = convolved(x, w, stride, pad, dilation, group) + bias[:, None, None]
    np.testing.assert_allclose(run("Conv", x, w, bias, constants=(1, 2), **settings), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "kernel", "stride", "pad", "dilation"),
    [
        (6, 3, 1, 12, 12),
        (6, 3, 1, 7, 7),
        (6, 3, 2, 6, 6),
        (5, 5, 1, 8, 4),
        (2, 4, 3, 5, 2),
        (3, 3, 1, 5, 3),
        (2, 2, 1, 3, 1),
    ],
)
def test_elements_of_a_window_that_are_always_in_the_border_are_left_out(
    rows: int, kernel: int, stride: int, pad: int, dilation: int
) -> None:
    x, w = random(1, 2, rows, rows), random(2, 2, kernel, kernel, seed=1)
    settings = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2}
    expected = convolved(x, w, stride, pad, dilation, 1)
    for constants in ((1,), ()):
        np.testing.assert_allclose(run("Conv", x, w, constants=constants, **settings), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("constants", [(), (1, 2)])
@pytest.mark.parametrize("pad", [0, 1])
def test_products_of_f16_are_summed_in_f32_and_rounded_once(pad: int, constants: tuple[int, ...]) -> None:
    x, w = (random(*shape, seed=n, dtype=np.float16) for n, shape in enumerate([(1, 70, 6, 5), (3, 70, 3, 3)]))
    bias = random(3, seed=2, dtype=np.float16)
    exact = convolved(x, w, 1, pad, 1, 1) + bias.astype(np.float64)[:, None, None]
    found = run("Conv", x, w, bias, constants=constants, pads=[pad] * 4)
    np.testing.assert_allclose(found, exact, rtol=2**-11, atol=2e-4)


def test_a_border_is_put_around_f16_in_f32() -> None:
    """What every product of an element would else convert again; weights that are known are kept so, too."""
    x, w = random(1, 4, 6, 6, dtype=np.float16), random(8, 4, 3, 3, seed=1, dtype=np.float16)
    for pad, copies, reads in ((1, "T0: f32", "T0"), (0, None, "f32(")):
        made = model([node("Conv", "X W", pads=[pad] * 4)], [value("X", x)], constants={"W": w})
        (row,) = ms.load_onnx(made).tasks().rows
        text = str(row.task.program)
        assert copies is None or copies in text
        assert f"]({reads}" in text


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ((8, 2, 3, 3), "2 groups of 2 channels do not make the 6"),
        ((9, 3, 3, 3), r"the 9 filters of .* do not go into 2 groups"),
    ],
)
def test_groups_that_do_not_go_into_channels_are_told_from_those_of_filters(
    filters: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(ms.RefusedModel, match=reason):
        run("Conv", random(1, 6, 5, 5), random(*filters), group=2)


@pytest.mark.parametrize(("stride", "pad", "group"), [(1, 0, 1), (2, 1, 1), (3, 1, 2)])
def test_a_transposed_convolution_is_the_adjoint_of_the_convolution(stride: int, pad: int, group: int) -> None:
    w = random(4, 2, 3, 3, seed=1)
    y = random(1, 4, 3, 2)
    made = run("ConvTranspose", y, w, strides=[stride] * 2, pads=[pad] * 4, group=group)
    x = random(*made.shape, seed=3)
    forward = convolved(x, w, stride, pad, 1, group)
    np.testing.assert_allclose((forward * y).sum(), (made.astype(np.float64) * x).sum(), rtol=1e-4)
