"""Resampled tensors, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import metasched as ms
from tests.support.onnx_models import check_some_rows, model, node, random, run, some_rows, value

CORNERS = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}


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


def resized(x: np.ndarray, sizes: list[int], **attributes: object) -> np.ndarray:
    return np.asarray(run("Resize", x, None, None, np.int64(sizes), constants=(3,), **attributes))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("dtype", "low", "high"), [("u1", 0, 256), ("i1", -128, 128), ("i4", -(2**30), 2**30)])
@pytest.mark.parametrize("size", [[1, 2, 13, 9], [1, 2, 2, 2]])
def test_integers_are_rounded_towards_zero_once(mode: str, dtype: str, low: int, high: int, size: list[int]) -> None:
    """When all axes are resampled, and what a cubic takes beyond their range goes to its end."""
    x = np.random.default_rng(0).integers(low, high, (1, 2, 8, 7)).astype(dtype)
    exact = resized(x.astype(np.float64), size, mode=mode)
    info = np.iinfo(dtype)
    made = resized(x, size, mode=mode)
    assert made.dtype == x.dtype
    np.testing.assert_array_equal(made, np.trunc(np.clip(exact + np.sign(exact) * 1e-4, info.min, info.max)))


@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("number", [3, 201])
@pytest.mark.parametrize("small", [7, 31])
def test_equal_integers_stay_what_they_are(antialias: int, mode: str, number: int, small: int) -> None:
    """Where weights do not add up to one, but to a rounding less."""
    x = np.full((1, 1, 20, 20), number, np.uint8)
    assert (resized(x, [1, 1, small, small + 2], mode=mode, antialias=antialias) == number).all()


def test_integers_are_rounded_to_the_nearest_without_aliases() -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 1, 20, 20)).astype(np.uint8)
    exact = resized(x.astype(np.float64), [1, 1, 7, 9], mode="linear", antialias=1)
    made = resized(x, [1, 1, 7, 9], mode="linear", antialias=1)
    assert np.abs(made - exact).max() <= 0.5 + 1e-4


def test_a_number_outside_of_an_image_of_bytes() -> None:
    x, part = np.arange(12, dtype=np.uint8).reshape(3, 4), np.float32([0, 0, 1, 2])
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    made = run("Resize", x, part, None, np.int64([3, 7]), constants=(1, 3), mode="linear", **how)
    np.testing.assert_array_equal(made, [[*row, 7, 7, 7] for row in x])


@pytest.mark.parametrize(
    ("extent", "scale", "size"), [(300, 0.7, 210), (10, 0.9, 9), (10, 2.3, 23), (7, 1.7, 11), (100, 0.3, 30)]
)
def test_a_size_is_an_extent_times_a_scale_in_f32(extent: int, scale: float, size: int) -> None:
    """As ONNX Runtime computes it, and PyTorch's exporter says it."""
    x = np.arange(extent, dtype=np.float32)[None, None]
    made = run("Resize", x, None, np.float32([1, 1, scale]), constants=(2,))
    assert made.shape == (1, 1, size)
    assert run("Upsample", x, np.float32([1, 1, scale]), constants=(1,), opset=9).shape == (1, 1, size)


def test_the_nearest_is_looked_for_in_f32() -> None:
    """11 by 1.1 is 10 there, though that 1.1 is a little more."""
    x = np.arange(100, dtype=np.float32)[None]
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    made = run("Resize", x, None, np.float32([1, 1.1]), constants=(2,), **how)
    np.testing.assert_array_equal(made[0, ::11], np.arange(0, 100, 10))
    sizes = [1, 100 + 41]
    aligned = resized(x, sizes, coordinate_transformation_mode="align_corners", nearest_mode="floor")
    assert aligned[0, -1] == 99


def test_no_elements_are_resampled_to_none_alone() -> None:
    x = np.zeros((0, 2, 3), np.float32)
    assert resized(x, [0, 2, 6], mode="linear").shape == (0, 2, 6)
    with pytest.raises(ms.RefusedModel, match="nothing is there to make 4 elements of"):
        resized(x, [4, 2, 3])


@pytest.mark.parametrize("settings", [{"mode": "linear"}, {"mode": "cubic"}, {"nearest_mode": "ceil"}, CORNERS])
def test_a_size_that_is_a_range_needs_no_table_of_its_own(settings: dict[str, Any]) -> None:
    """Where outputs look at the last element is a number of the call."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", "h"))
    made = model([node("Resize", "x - factors", "y", **settings)], [x], ["y"], {"factors": np.float32([1, 2])})
    net = ms.load_onnx(made, n=2, h=ms.SizeRange(4, 9, buckets=(9,)))
    assert isinstance(net, ms.NetworkOfSizes)
    own = net.bucket(h=9)
    assert own is not None
    assert own.forms()
    # Places that are clamped to the size of a call are read without a condition for each element.
    assert not any(" if " in str(node.program) for node in own.network.graph.computes)
    for h in (4, 7, 9):
        given = random(2, h)
        np.testing.assert_allclose(
            net(given), ReferenceEvaluator(made).run(None, {"x": given})[0], rtol=1e-4, atol=1e-6
        )
