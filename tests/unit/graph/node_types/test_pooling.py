"""Pools, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, run, value


def test_pools_leave_out_their_border() -> None:
    x = random(1, 2, 5, 5)
    bordered = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(bordered, (3, 3), (2, 3))[:, :, ::2, ::2]
    settings: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    np.testing.assert_allclose(run("MaxPool", x, **settings), np.nanmax(windows, (4, 5)))
    np.testing.assert_allclose(run("AveragePool", x, **settings), np.nanmean(windows, (4, 5)), rtol=1e-5)
    counted = np.nan_to_num(windows).mean((4, 5))
    np.testing.assert_allclose(run("AveragePool", x, count_include_pad=1, **settings), counted, rtol=1e-5)
    largest, places = run("MaxPool", x, outputs=2, **settings)
    np.testing.assert_array_equal(x.reshape(-1)[places], largest)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((1, 2, 9, 8), {"kernel_shape": [5, 5], "pads": [2, 2, 2, 2]}),
        ((1, 2, 12, 12), {"kernel_shape": [3, 3], "pads": [1, 2, 1, 2], "dilations": [1, 2]}),
        ((1, 2, 20, 20), {"kernel_shape": [9, 9], "strides": [2, 1], "pads": [3, 0, 4, 2], "ceil_mode": 1}),
        ((1, 1, 24, 24), {"kernel_shape": [4, 4], "dilations": [2, 1]}),
        ((1, 2, 6, 7, 5), {"kernel_shape": [3, 3, 3], "pads": [1] * 6}),
    ],
)
def test_large_windows_go_along_one_dimension_after_another(shape: tuple[int, ...], settings: dict[str, Any]) -> None:
    x, rank = random(*shape), len(shape) - 2
    kernel, pads = settings["kernel_shape"], settings.get("pads", [0] * 2 * rank)
    strides, dilations = (settings.get(name, [1] * rank) for name in ("strides", "dilations"))
    bordered = np.pad(x, [(0, 0), (0, 0), *((n, 9) for n in pads[:rank])], constant_values=np.nan)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(bordered, reach, tuple(range(2, rank + 2)))
    steps = [slice(None), slice(None), *(slice(None, None, n) for n in (*strides, *dilations))]
    windows, within = windows[tuple(steps)], tuple(range(rank + 2, 2 * rank + 2))
    for op, reducer, function, tolerance in (
        ("MaxPool", "max[", np.nanmax, 0.0),
        ("AveragePool", "sum[", np.nanmean, 1e-5),
        ("LpPool", "sum[", lambda a, axes: np.sqrt(np.nansum(a * a, axes)), 1e-5),
    ):
        network = ms.load_onnx(model([node(op, "X", **settings)], [value("X", x)]))
        made = network(x)
        expected = function(windows[tuple(slice(n) for n in made.shape)], within)
        np.testing.assert_allclose(made, expected, rtol=tolerance, atol=tolerance)
        assert str(network.graph).count(reducer) == rank


@pytest.mark.parametrize(("size", "stride", "stages"), [(5, 3, 2), (4, 2, 2), (3, 2, 1), (2, 2, 1)])
def test_windows_far_apart_are_reduced_along_one_dimension_first(size: int, stride: int, stages: int) -> None:
    """What is next to one another is in vectors then, and few elements are read a stride apart."""
    x = random(1, 2, 26, 26)
    settings = {"kernel_shape": [size] * 2, "strides": [stride] * 2}
    network = ms.load_onnx(model([node("MaxPool", "X", **settings)], [value("X", x)]))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(network(x), windows.max((4, 5)))
    assert str(network.graph).count("max[") == stages


def test_means_of_windows_are_sums_of_parts_of_them() -> None:
    """No stage divides what was summed: the last one sums what is a ninth of each term."""
    x = random(1, 2, 24, 24)
    network = ms.load_onnx(model([node("AveragePool", "X", kernel_shape=[3, 3])], [value("X", x)]))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    np.testing.assert_allclose(network(x), windows.mean((4, 5)), rtol=1e-5, atol=1e-6)
    assert "Y[n, c, h0, h1] = sum[" in str(network.graph)


def test_what_was_pooled_goes_back_to_its_places() -> None:
    x = random(1, 1, 4, 4) + 3
    largest, places = run("MaxPool", x, outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    expected = np.zeros_like(x)
    expected.reshape(-1)[places.reshape(-1)] = largest.reshape(-1)
    settings = {"kernel_shape": [2, 2], "strides": [2, 2]}
    np.testing.assert_array_equal(run("MaxUnpool", largest, places, **settings), expected)
    made = run("MaxUnpool", largest, places, np.array([1, 1, 5, 6]), constants=(2,), **settings)
    np.testing.assert_array_equal(made[..., :4, :4], expected)
    assert made[..., 4:, :].sum() == made[..., 4:].sum() == 0


def test_what_several_windows_found_is_there_once() -> None:
    x = np.float32([[[[1, 2, 1], [2, 9, 2], [1, 2, 3]]]])
    largest, places = run("MaxPool", x, outputs=2, kernel_shape=[2, 2])
    expected = np.zeros_like(x)
    expected[0, 0, 1, 1] = 9
    np.testing.assert_array_equal(run("MaxUnpool", largest, places, kernel_shape=[2, 2]), expected)
    # Where they differ, the last one is there.
    largest = np.float32([[[[-5, 6], [-7, -8]]]])
    expected[0, 0, 1, 1] = -8
    np.testing.assert_array_equal(run("MaxUnpool", largest, places, kernel_shape=[2, 2]), expected)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2], "pads": [3, 1, 2, 0], "dilations": [2, 1], "strides": [1, 2]},
    ],
)
def test_the_largest_of_minus_infinity_alone_is_the_first_that_is_no_border(
    settings: dict[str, Any], storage_order: int
) -> None:
    x = np.full((1, 2, 4, 5), -np.inf, np.float32)
    largest, places = run("MaxPool", x, outputs=2, storage_order=storage_order, **settings)
    assert (largest == -np.inf).all()
    strides, dilations = (settings.get(name, [1, 1]) for name in ("strides", "dilations"))
    for n, c, *window in np.ndindex(*largest.shape):
        begin = [h * s - p for h, s, p in zip(window, strides, settings["pads"], strict=False)]
        row, column = (next(i for i in range(b, 9, d) if i >= 0) for b, d in zip(begin, dilations, strict=True))
        within = column * 4 + row if storage_order else row * 5 + column
        assert places[n, c, *window] == c * 20 + within


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_means_of_windows_that_are_cut_off_in_each_type(dtype: Any) -> None:
    x = np.array([[[1, 2, 3, 6]]], dtype)
    made = run("AveragePool", x, kernel_shape=[3], pads=[1, 1])
    assert made.dtype == dtype
    np.testing.assert_allclose(made, [[[1.5, 2, 11 / 3, 4.5]]], rtol=1e-3 if dtype is np.float16 else 1e-6)


@pytest.mark.parametrize(("padding_counts", "width"), [(0, 9), (1, 9), (0, 10)])
def test_means_of_windows_with_gaps_are_of_what_is_there(padding_counts: int, width: int) -> None:
    """The last window goes on behind the padding where `ceil_mode` makes it."""
    x = random(1, 2, width)
    settings: dict[str, Any] = {"kernel_shape": [3], "strides": [2], "pads": [2, 1], "dilations": [2], "ceil_mode": 1}
    made = run("AveragePool", x, count_include_pad=padding_counts, **settings)
    bordered = np.pad(x, [(0, 0), (0, 0), (2, 1)], constant_values=0 if padding_counts else np.nan)
    bordered = np.pad(bordered, [(0, 0), (0, 0), (0, 9)], constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(bordered, 5, 2)[:, :, ::2, ::2]
    np.testing.assert_allclose(made, np.nanmean(windows[:, :, : made.shape[2]], 3), rtol=1e-5)


def test_a_window_that_is_cut_off_counts_where_ceil_mode_says_so() -> None:
    x = random(1, 1, 6)
    np.testing.assert_array_equal(
        run("MaxPool", x, kernel_shape=[3], strides=[2], ceil_mode=1)[0, 0],
        [max(x[0, 0, n : n + 3]) for n in (0, 2, 4)],
    )
    assert run("MaxPool", x, kernel_shape=[3], strides=[2]).shape == (1, 1, 2)
    for op, only in (("MaxPool", x.max()), ("AveragePool", x.mean())):
        made = run(op, x, kernel_shape=[7], strides=[3], ceil_mode=1)  # the only one
        np.testing.assert_allclose(made, [[[only]]], rtol=1e-6)


@pytest.mark.parametrize(("op", "function"), [("GlobalAveragePool", np.mean), ("GlobalMaxPool", np.max)])
def test_global_pools(op: str, function: Any) -> None:
    x = random(2, 3, 4, 5)
    np.testing.assert_allclose(run(op, x), function(x, axis=(2, 3), keepdims=True), rtol=1e-5)
