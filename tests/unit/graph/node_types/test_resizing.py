"""Resampled tensors, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from tests.support.onnx_models import check_some_rows, model, node, random, run, some_rows, value


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_doubling_a_size(mode: str) -> None:
    x = random(1, 1, 2, 3)
    made = run(
        "Resize",
        x,
        None,
        np.float32([1, 1, 2, 2]),
        constants=(2,),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    assert made.shape == (1, 1, 4, 6)
    np.testing.assert_allclose(made[..., ::2, ::2], x, rtol=1e-6)
    between = (x[..., 0] + x[..., 1]) / 2 if mode == "linear" else x[..., 0]
    np.testing.assert_allclose(made[..., ::2, 1], between, rtol=1e-6)


@pytest.mark.parametrize(("mode", "small", "kernels"), [("linear", 9, 1), ("linear", 40, 2), ("cubic", 7, 1)])
def test_much_smaller_sizes_are_resampled_along_all_dimensions_at_once(mode: str, small: int, kernels: int) -> None:
    x, sizes = random(1, 2, 60, 70), np.int64([1, 2, small, small])
    made = model([node("Resize", "X - - sizes", mode=mode)], [value("X", x)], constants={"sizes": sizes})
    network = ms.load_onnx(made)
    (expected,) = ReferenceEvaluator(made).run(None, {"X": x})
    np.testing.assert_allclose(network(x), expected, rtol=1e-4, atol=1e-5)
    assert len(list(network.graph.computes)) == kernels


def test_rows_of_which_data_decide_how_many_there_are() -> None:
    """As PyTorch exports `interpolate`: to the sizes that the value has, and others."""
    x, known = random(4, 2, 3, 5), {"zero": np.int64([0]), "two": np.int64([2]), "larger": np.int64([6, 7])}
    sizes = [node("Shape", "some", "shape"), node("Slice", "shape zero two zero", "same")]
    nodes = [*sizes, node("Concat", "same larger", "sizes", axis=0), node("Resize", "some - - sizes", mode="linear")]
    check_some_rows(nodes, ["Y"], x, [np.arange(4) != 1, np.arange(4) == 2], known, 1e-5)


def test_a_size_that_data_decide_is_refused() -> None:
    x, known = random(4, 2), {"one": np.int64([1]), "zero": np.int64(0), "axes": [1], "junk": np.float32(0)}
    sizes = [node("Shape", "some", "shape"), node("Gather", "shape zero", "n"), node("Unsqueeze", "n axis", "rows")]
    nodes = [*some_rows(2), *sizes, node("Concat", "rows rows", "sizes", axis=0), node("Resize", "some - - sizes")]
    with pytest.raises(ms.RefusedModel, match="data decide the size that its dimension 1 is resized to"):
        ms.load_onnx(model(nodes, [value("x", x), value("mask", x[:, 0] > 0)], ["Y"], known | {"axis": [0]}))
