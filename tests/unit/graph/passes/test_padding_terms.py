"""Rows of padding are no terms of convolutions, where weights are finite and there are rows enough."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx.helper
import onnx.numpy_helper
import pytest

import metasched as ms
from metasched.graph.ir import Graph
from metasched.graph.passes.padding_terms import padding_terms
from tests.support.graphs import context, require_equal


def convolution(shape: tuple[int, ...], weights: np.ndarray, **attributes: object) -> Graph:
    """The graph of one convolution, as the model says it."""
    out = [None] * len(shape)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    kind = onnx.helper.np_dtype_to_tensor_dtype(weights.dtype)
    given = onnx.helper.make_tensor_value_info("x", kind, shape)
    made = onnx.helper.make_tensor_value_info("y", kind, out)
    graph = onnx.helper.make_graph([node], "m", [given], [made], [onnx.numpy_helper.from_array(weights, "w")])
    return ms.load_onnx(onnx.helper.make_model(graph, ir_version=10)).graph


def weights(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def sums(graph: Graph) -> list[str]:
    """The conditions of the sums of products of a graph, an empty text where there is none."""
    lines = [line for node in graph.computes for line in str(node.program).splitlines() if "sum[" in line]
    return [line.partition(" if ")[2].partition("]")[0] for line in lines]


def passed(graph: Graph) -> Graph:
    made = padding_terms(graph, context())
    made.validate()
    require_equal(graph, made)
    return made


def test_rows_of_padding_are_left_out_and_columns_are_not() -> None:
    (condition,) = sums(passed(convolution((1, 2, 5, 5), weights(3, 2, 3, 3), pads=[1, 1, 1, 1])))
    assert condition.count(">=") == condition.count("<") == 1
    assert ">= 1" in condition
    assert "< 6" in condition


def test_of_volumes_planes_and_rows_are_left_out() -> None:
    (condition,) = sums(passed(convolution((1, 2, 3, 4, 5), weights(2, 2, 3, 3, 3), pads=[1] * 6)))
    assert condition.count(">=") == condition.count("<") == 2
    assert "< 4" in condition
    assert "< 5" in condition


def test_columns_are_left_out_where_channels_share_them() -> None:
    (condition,) = sums(passed(convolution((1, 8, 5, 6), weights(3, 8, 3, 3), pads=[1, 1, 1, 1])))
    assert condition.count(">=") == condition.count("<") == 2
    assert "< 6" in condition
    assert "< 7" in condition


def test_windows_along_one_dimension_leave_out_its_terms() -> None:
    for pads, taps in (([0, 3, 0, 3], (1, 7)), ([3, 0, 3, 0], (7, 1))):
        (condition,) = sums(passed(convolution((1, 8, 17, 17), weights(3, 8, *taps), pads=pads)))
        assert condition.count(">=") == condition.count("<") == 1


def test_of_many_columns_rows_alone_are_left_out() -> None:
    (condition,) = sums(passed(convolution((1, 8, 20, 200), weights(3, 8, 3, 3), pads=[1, 1, 1, 1])))
    assert condition.count(">=") == condition.count("<") == 1
    assert "< 21" in condition


@pytest.mark.parametrize(
    ("shape", "taps", "attributes"),
    [
        ((1, 2, 5, 5), 3, {}),  # there is no padding
        ((1, 2, 64, 5), 3, {"pads": [1, 1, 1, 1]}),  # a hundredth of the terms
        ((1, 2, 5), 3, {"pads": [1, 1]}),  # columns only
        ((1, 2, 5, 5), 3, {"pads": [0, 1, 0, 1]}),
    ],
)
def test_where_it_is_not_worth_a_condition(shape: tuple[int, ...], taps: int, attributes: dict[str, object]) -> None:
    graph = convolution(shape, weights(3, 2, *[taps] * (len(shape) - 2)), **attributes)
    assert passed(graph).nodes == graph.nodes


def test_strides_and_dilations_move_rows() -> None:
    (condition,) = sums(
        passed(convolution((1, 2, 9, 9), weights(3, 2, 3, 3), pads=[4, 4, 4, 4], strides=[2, 2], dilations=[4, 4]))
    )
    assert "2 * " in condition
    assert "4 * " in condition


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_zeros_times_weights_that_are_not_finite_stay(bad: float) -> None:
    """As the model says: zero times infinity is no number."""
    array = weights(3, 2, 3, 3)
    array[1, 1, 0, 0] = bad
    graph = convolution((1, 2, 5, 5), array, pads=[1, 1, 1, 1])
    assert padding_terms(graph, context()).nodes == graph.nodes


def test_weights_that_calls_give_stay() -> None:
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    given = [
        onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", (1, 2, 5, 5)), ("w", (3, 2, 3, 3)))
    ]
    made = onnx.helper.make_tensor_value_info("y", 1, [None] * 4)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "m", given, [made]), ir_version=10)
    graph = ms.load_onnx(model).graph
    assert padding_terms(graph, context()).nodes == graph.nodes


def test_halves_are_left_to_tensor_instructions() -> None:
    graph = convolution((1, 2, 5, 5), weights(3, 2, 3, 3, dtype=ml_dtypes.bfloat16), pads=[1, 1, 1, 1])
    assert padding_terms(graph, context()).nodes == graph.nodes


def test_a_whole_network_computes_the_same() -> None:
    """Compiled, with channels last and a guessed schedule."""
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[6, 6, 6, 6], dilations=[6, 6])
    array = weights(16, 16, 3, 3)
    graph = onnx.helper.make_graph(
        [node],
        "m",
        [onnx.helper.make_tensor_value_info("x", 1, (1, 16, 9, 9))],
        [onnx.helper.make_tensor_value_info("y", 1, [None] * 4)],
        [onnx.numpy_helper.from_array(array, "w")],
    )
    net = ms.load_onnx(onnx.helper.make_model(graph, ir_version=10))
    assert any(sums(net.optimised))
    x = weights(1, 16, 9, 9)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (6, 6), (6, 6)))
    windows = np.stack([padded[:, :, 6 * r : 6 * r + 9, 6 * s : 6 * s + 9] for r in range(3) for s in range(3)], 2)
    expected = np.einsum("nckhw,ock->nohw", windows, array.reshape(16, 16, 9).astype(np.float64))
    np.testing.assert_allclose(net(x), expected, rtol=1e-4, atol=1e-4)
