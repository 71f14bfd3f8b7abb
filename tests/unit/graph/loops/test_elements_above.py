"""The first elements of rows among those above a number, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import metasched as ms
from metasched.graph.ir import LoopNode
from metasched.graph.loops.elements_above import selection_cost
from metasched.graph.node_helpers.selected_elements import cheapest_levels
from tests.support.onnx_models import model, node, run, value
from tests.support.sorted_rows import places_in_order


@pytest.fixture
def _always_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any length are divided by a number, so that programs take no time to compile."""
    monkeypatch.setattr("metasched.graph.node_types.sorting.selection_cost", lambda *_: 0)
    monkeypatch.setattr("metasched.graph.loops.elements_above._LEAST_MORE", 2)


def first_places(x: np.ndarray, k: int, largest: bool) -> None:
    values, places = run("TopK", x, np.array([k]), constants=(1,), outputs=2, largest=int(largest))
    expected = places_in_order(x, k, x.ndim - 1, largest)
    np.testing.assert_array_equal(places, expected)
    picked = np.take_along_axis(x, expected, -1)
    np.testing.assert_array_equal(np.asarray(values).view(np.uint8), picked.view(np.uint8))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.usefixtures("_always_divided")
def test_rows_of_different_numbers(dtype: Any, largest: bool) -> None:
    first_places(np.random.default_rng(0).standard_normal((2, 3, 61)).astype(dtype), 7, largest)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.usefixtures("_always_divided")
def test_rows_of_integers(dtype: Any, few: bool, largest: bool) -> None:
    """Of a few different ones none divides a row, and a loop knows that it is at the last one."""
    limits = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(limits.min, limits.max, (2, 3, 61), dtype, endpoint=True)
    first_places(np.where(x % 2 == 0, limits.min, limits.max).astype(dtype) if few else x, 7, largest)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("special", [-np.inf, np.inf, np.nan, 0.0, 3e38])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.98])
@pytest.mark.usefixtures("_always_divided")
def test_rows_that_no_number_divides_are_looked_through_otherwise(special: float, share: float, largest: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 61)).astype(np.float32)
    x[rng.random(x.shape) < share] = special
    first_places(x, 7, largest)


def test_many_of_a_long_row_are_looked_for_so_and_few_are_not() -> None:
    many, few = cheapest_levels(8400, 300, 1), cheapest_levels(8400, 5, 1)
    assert many is not None
    assert few is not None
    assert selection_cost(8400, 300, 1) < many.cost / 4
    assert selection_cost(8400, 5, 1) > few.cost
    x = np.zeros((1, 8400), np.float32)
    net = ms.load_onnx(model([node("TopK", "X k", outputs="V I")], [value("X", x)], ["V", "I"], {"k": np.array([300])}))
    assert any(isinstance(n, LoopNode) for n in net.graph.nodes)


def test_networks_of_ranges_of_sizes_keep_their_buckets() -> None:
    rows = helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, ("n", 4000))
    made = model([node("TopK", "X k", outputs="V I")], [rows], ["V", "I"], {"k": np.array([200])})
    net = ms.load_onnx(made, n=(1, 4))
    x = np.random.default_rng(0).standard_normal((3, 4000)).astype(np.float32)
    np.testing.assert_array_equal(net(x)[1], places_in_order(x, 200, 1, largest=True))
    assert len(net.buckets) == 1


def test_networks_with_caches_that_grow_have_no_such_loop() -> None:
    sizes = {"X": (1, 1, 4000), "past": (1, "past", 4000)}
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    nodes = [
        node("Concat", "past X", "present", axis=1),
        node("ReduceSum", "present axes", "S"),
        node("TopK", "S k", "V I"),
    ]
    constants = {"k": np.array([200]), "axes": np.array([1])}
    made = model(nodes, inputs, ["V", "I", "present"], constants)
    net = ms.load_onnx(made, past=ms.GrowingSize(8), states={"past": "present"})
    x = np.random.default_rng(0).standard_normal((2, 1, 1, 4000)).astype(np.float32)
    net(x[0], np.int64(0))
    np.testing.assert_array_equal(net(x[1], np.int64(1))[1], places_in_order(x[0] + x[1], 200, 2, largest=True))
