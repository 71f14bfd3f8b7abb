"""Slopes of opsets before 7 are those of channels, whatever the dimensions behind them."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value


def slopes_as_input(opset: int, *shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, slopes of its second dimension, and what a PRelu of an opset makes of them."""
    x, slopes = random(*shape), random(shape[1], seed=1)
    net = ms.load_onnx(model([node("PRelu", "x s")], [value("x", x), value("s", slopes)], opset=opset))
    return x, slopes, net(x, slopes)


@pytest.mark.parametrize("behind", [(), (4,), (3,), (3, 3), (2, 1, 5)])
def test_slopes_of_one_dimension_are_along_channels(behind: tuple[int, ...]) -> None:
    x, slopes, found = slopes_as_input(6, 2, 3, *behind)
    along = slopes.reshape(-1, *[1] * len(behind))
    np.testing.assert_allclose(found, np.where(x < 0, x * along, x), rtol=1e-6)


def test_from_opset_7_on_they_are_along_the_last_dimension() -> None:
    x, slopes, found = slopes_as_input(9, 2, 3, 3)
    np.testing.assert_allclose(found, np.where(x < 0, x * slopes, x), rtol=1e-6)


def test_one_slope_of_several_nodes_is_that_of_all() -> None:
    x, slope = random(2, 3, 4), np.float32([0.25])
    nodes = [node("PRelu", "x s", "a"), node("Neg", "a", "b"), node("PRelu", "b s", "Y"), node("Relu", "x", "r")]
    net = ms.load_onnx(model(nodes, [value("x", x)], ["Y", "r"], {"s": slope}, opset=6))
    before = -np.where(x < 0, x / 4, x)
    np.testing.assert_allclose(net(x)[0], np.where(before < 0, before / 4, before), rtol=1e-6)
