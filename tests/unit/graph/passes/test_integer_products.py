"""Products of quantised numbers become products of bytes, whose results are those of the model."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.dtypes import DType
from metasched.graph.ir import Graph
from tests.support.graphs import by_reference
from tests.support.onnx_models import integers, model, node, random, value

U8, I8 = np.uint8, np.int8
RNG = np.random.default_rng(0)


def of_bytes(*shape: int, dtype: Any = I8, seed: int = 0) -> Any:
    limits = np.iinfo(dtype)
    return integers(*shape, low=limits.min, high=limits.max + 1, seed=seed, dtype=dtype)


def computed(nodes: list[Any], inputs: dict[str, Any], constants: dict[str, Any], step: float = 0.0) -> Graph:
    """The optimised graph of a model; raises AssertionError where its results are not ONNX's, up to `step`."""
    made = model(nodes, [value(name, array) for name, array in inputs.items()], constants=constants)
    graph = ms.load_onnx(made).optimised
    (expected,) = ReferenceEvaluator(made).run(None, inputs)
    (found,) = by_reference(graph, inputs)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=step + 1e-4)
    return graph


def multiplied(graph: Graph) -> list[str]:
    """The stages that multiply bytes, up to the names of their indices."""
    return [line for line in _summed(graph) if len(_ELEMENTS.findall(line)) == 2]


def sums(graph: Graph) -> list[str]:
    """The stages that add up bytes, for zero points; they may be multiplied by one."""
    return [line for line in _summed(graph) if len(_ELEMENTS.findall(line)) == 1]


_ELEMENTS = re.compile(r"i32\(\w+\[[^]]+\]\)")  # of bytes that are no single number


def _summed(graph: Graph) -> list[str]:
    lines = [line.strip() for node in graph.computes for line in str(node.program).splitlines()]
    return [line for line in lines if "sum[" in line]


def qdq_conv(weights: Any, zero: Any, x_type: Any = U8, x_zero: int = 13) -> tuple[list[Any], dict[str, Any]]:
    """A quantised convolution with bias and ReLU as quantisers write it, and its constants."""
    scales = (RNG.random(np.shape(zero)) * 0.01 + 0.001).astype(np.float32)
    axis = {"axis": 0} if np.shape(zero) else {}
    constants = {
        "sx": np.float32(1 / 200),
        "zx": np.array(x_zero, x_type),
        "W": weights,
        "sw": scales,
        "zw": zero,
        "B": integers(len(weights), low=-500, high=500),
        "sb": (scales / np.float32(200)).astype(np.float32),
        "zb": np.zeros(np.shape(zero), np.int32),
        "sy": np.float32(0.05),
        "zy": np.array(3, U8),
    }
    nodes = [
        node("QuantizeLinear", "X sx zx", "Xq"),
        node("DequantizeLinear", "Xq sx zx", "Xd"),
        node("DequantizeLinear", "W sw zw", "Wd", **axis),
        node("DequantizeLinear", "B sb zb", "Bd", **axis),
        node("Conv", "Xd Wd Bd", "C", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "C", "R"),
        node("QuantizeLinear", "R sy zy", "Rq"),
        node("DequantizeLinear", "Rq sy zy", "Y"),
    ]
    return nodes, constants


X = {"X": np.abs(random(1, 4, 6, 6))}


def test_a_convolution_in_qdq_form_multiplies_bytes() -> None:
    nodes, constants = qdq_conv(of_bytes(8, 4, 3, 3), np.zeros(8, I8))
    graph = computed(nodes, X, constants, step=0.05)
    assert len(multiplied(graph)) == 1
    assert graph.constants["W"].dtype == I8
    kernels = [str(node.program) for node in graph.computes]
    assert len(kernels) == 2
    # Around the image is the zero point, and what it adds is taken off by sums of weights.
    assert "else B[]" in kernels[1]
    assert len(sums(graph)) == 1


@pytest.mark.parametrize(
    ("weights", "zero", "more"),
    [
        (of_bytes(8, 4, 3, 3, dtype=U8), np.full(8, 128, U8), 0),
        (of_bytes(8, 4, 3, 3, dtype=U8), np.array(100, U8), 1),
        (np.abs(of_bytes(8, 4, 3, 3) // 2), np.arange(8, dtype=I8), 0),
    ],
    ids=["centred", "beyond", "small"],
)
def test_zero_points_of_weights_are_taken_from_them_where_bytes_hold_that(weights: Any, zero: Any, more: int) -> None:
    nodes, constants = qdq_conv(weights, zero)
    graph = computed(nodes, X, constants, step=0.05)
    assert len(multiplied(graph)) == 1
    assert len(sums(graph)) == 1 + more


def test_signed_activations() -> None:
    nodes, constants = qdq_conv(of_bytes(8, 4, 3, 3), np.zeros(8, I8), x_type=I8, x_zero=-5)
    assert len(multiplied(computed(nodes, X, constants, step=0.05))) == 1


def test_values_between_convolutions_are_bytes() -> None:
    nodes, constants = qdq_conv(of_bytes(4, 4, 3, 3), np.zeros(4, I8))
    nodes[-1] = node("DequantizeLinear", "Rq sy zy", "Rd")
    nodes += [node("Conv", "Rd Wd", "Y")]
    graph = computed(nodes, X, constants, step=0.05)
    assert len(multiplied(graph)) == 2
    *before, _ = graph.computes
    between = [name for n in before for name in n.outputs]
    assert [graph.types[name].dtype for name in between] == [DType.U8, DType.U8]


@pytest.mark.parametrize(("dtype", "zero"), [(I8, 0), (U8, 77)])
def test_quantised_operators_multiply_bytes(dtype: Any, zero: int) -> None:
    constants = {
        "sx": np.float32(0.01),
        "zx": np.array(111, U8),
        "W": of_bytes(8, 4, 3, 3, dtype=dtype),
        "sw": np.float32(0.005),
        "zw": np.array(zero, dtype),
        "sy": np.float32(0.1),
        "zy": np.array(120, U8),
        "B": integers(8, low=-500, high=500),
    }
    nodes = [node("QLinearConv", "X sx zx W sw zw sy zy B", pads=[1, 1, 1, 1])]
    graph = computed(nodes, {"X": of_bytes(1, 4, 3, 3, dtype=U8, seed=1)}, constants, step=1)
    assert len(multiplied(graph)) == 1


def test_integer_products_of_groups() -> None:
    constants = {"zx": np.array(111, U8), "W": of_bytes(8, 2, 3, 3, dtype=U8), "zw": np.array(128, U8)}
    nodes = [node("ConvInteger", "X W zx zw", pads=[1, 1, 1, 1], group=2)]
    assert len(multiplied(computed(nodes, {"X": of_bytes(1, 4, 5, 5, dtype=U8)}, constants))) == 1


def test_zero_points_of_columns_take_sums_of_rows() -> None:
    constants = {"zx": np.array(111, U8), "W": of_bytes(16, 6), "zw": of_bytes(6, seed=3)}
    graph = computed([node("MatMulInteger", "X W zx zw")], {"X": of_bytes(3, 5, 16, dtype=U8)}, constants)
    assert len(multiplied(graph)) == 1
    assert len(sums(graph)) == 2


def test_two_unsigned_operands_are_multiplied_as_an_unsigned_and_a_signed_one() -> None:
    constants = {"zx": np.array(111, U8), "zw": np.array(99, U8)}
    inputs = {"X": of_bytes(5, 16, dtype=U8), "W": of_bytes(16, 6, dtype=U8, seed=1)}
    graph = computed([node("MatMulInteger", "X W zx zw")], inputs, constants)
    assert len(multiplied(graph)) == 1
    assert "i8(i32(A[i0, i1]) - 128)" in str(next(iter(graph.computes)).program)


def test_scales_that_are_computed_in_each_call() -> None:
    nodes = [
        node("DynamicQuantizeLinear", "X", "q s z"),
        node("MatMulInteger", "q W z", "t"),
        node("Cast", "t", "f", to=1),
        node("Mul", "f s"),
    ]
    graph = computed(nodes, {"X": random(5, 16)}, {"W": of_bytes(16, 6)}, step=0.5)
    assert len(multiplied(graph)) == 1


MOVED = {
    "sx": np.float32(0.03),
    "zx": np.array(128, U8),
    "W": of_bytes(6, 16),
    "sw": (RNG.random(6) * 0.01).astype(np.float32),
    "zw": np.zeros(6, I8),
    "shape": np.array([10, 16]),
}
QUANTISED = [node("QuantizeLinear", "X sx zx", "q"), node("DequantizeLinear", "q sx zx", "d")]


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Transpose", "wd", "wt", perm=[1, 0]), node("MatMul", "r wt")],
        [node("Gemm", "r wd", transB=1, alpha=0.5)],
    ],
    ids=["transposed", "gemm"],
)
def test_bytes_are_moved_instead_of_what_they_stand_for(nodes: list[Any]) -> None:
    before = [*QUANTISED, node("Reshape", "d shape", "r"), node("DequantizeLinear", "W sw zw", "wd", axis=0)]
    graph = computed([*before, *nodes], {"X": random(2, 5, 16)}, MOVED)
    assert len(multiplied(graph)) == 1
    assert "W" not in [name for name in graph.constants if graph.types[name].dtype is not DType.I8]
    assert max(graph.types[name].size for name in graph.constants if graph.types[name].dtype is DType.F32) == 6


def test_what_is_not_only_multiplied_is_dequantised_as_well() -> None:
    constants = {**MOVED, "W": of_bytes(16, 16), "sw": np.float32(0.01), "zw": np.array(0, I8)}
    nodes = [*QUANTISED, node("DequantizeLinear", "W sw zw", "wd"), node("MatMul", "d wd", "p"), node("Add", "p d")]
    assert len(multiplied(computed(nodes, {"X": random(5, 16)}, constants))) == 1


def test_scales_along_what_is_summed_stay_in_f32() -> None:
    constants = {**MOVED, "W": of_bytes(16, 6), "sw": np.full(16, 0.01, np.float32), "zw": np.zeros(16, I8)}
    nodes = [*QUANTISED, node("DequantizeLinear", "W sw zw", "wd", axis=0), node("MatMul", "d wd")]
    graph = computed(nodes, {"X": random(5, 16)}, constants)
    assert multiplied(graph) == []
    # They are folded then, as they would have been.
    assert "DequantizeLinear" not in [n.op for n in graph.computes]


def test_totals_that_32_bits_may_not_hold_stay_in_f32() -> None:
    constants = {"sw": np.float32(0.01), "zw": np.array(0, I8), "W": of_bytes(66_000, 1)}
    nodes = [
        node("DequantizeLinear", "X sw zw", "d"),
        node("DequantizeLinear", "W sw zw", "wd"),
        node("MatMul", "d wd"),
    ]
    made = model(nodes, [value("X", of_bytes(2, 66_000))], constants=constants)
    assert multiplied(ms.load_onnx(made).optimised) == []


@pytest.mark.parametrize(("zero", "products"), [(0, 0), (128, 1)], ids=["unsigned", "centred"])
def test_totals_of_two_unsigned_bytes_fit_with_their_zero_points(zero: int, products: int) -> None:
    """40,000 products of 255 by 255 are more than 32 bits hold, of 255 by 127 they are not."""
    highest = np.full((40_000, 2), 255, U8)
    constants = {"s": np.float32(1), "zx": np.array(0, U8), "zw": np.array(zero, U8), "W": highest}
    nodes = [
        node("DequantizeLinear", "X s zx", "d"),
        node("DequantizeLinear", "W s zw", "wd"),
        node("MatMul", "d wd"),
    ]
    assert len(multiplied(computed(nodes, {"X": highest.T}, constants, step=1e5))) == products


@pytest.mark.parametrize("x_zero", [-5, 0], ids=["zero point", "symmetric"])
def test_signed_activations_become_unsigned_for_signed_weights(x_zero: int) -> None:
    nodes, constants = qdq_conv(of_bytes(4, 4, 3, 3), np.zeros(4, I8), x_type=I8, x_zero=x_zero)
    constants |= {"zy": np.array(x_zero, I8)}
    nodes[-1] = node("DequantizeLinear", "Rq sy zy", "Rd")
    nodes += [node("Conv", "Rd Wd", "D", pads=[1, 1, 1, 1]), node("Add", "D Rd", "Y")]
    graph = computed(nodes, {"X": random(1, 4, 6, 6)}, constants, step=0.06)
    assert len(multiplied(graph)) == 2
    # Both convolutions, and the sum, read what was made unsigned where it was quantised.
    *before, _ = graph.computes
    between = [name for n in before for name in n.outputs]
    assert [graph.types[name].dtype for name in between[:2]] == [DType.U8, DType.U8]
    assert DType.I8 not in [graph.types[name].dtype for name in between]
    assert "i8(min" not in "".join(str(n.program) for n in graph.computes)


def test_signed_bytes_without_negative_ones_have_no_zero_point_when_unsigned() -> None:
    nodes, constants = qdq_conv(of_bytes(4, 4, 3, 3), np.zeros(4, I8))
    constants |= {"zy": np.array(-128, I8)}
    nodes[-1] = node("DequantizeLinear", "Rq sy zy", "Rd")
    nodes += [node("Conv", "Rd Wd", "Y", pads=[1, 1, 1, 1])]
    graph = computed(nodes, {"X": random(1, 4, 6, 6)}, constants, step=0.06)
    assert len(multiplied(graph)) == 2
    assert len(sums(graph)) == 1  # of the first one, whose input has a zero point


def test_signed_inputs_of_quantised_operators_become_unsigned() -> None:
    constants = {"W": of_bytes(8, 4, 3, 3), "zx": np.array(3, I8)}
    graph = computed([node("ConvInteger", "X W zx", pads=[1, 1, 1, 1])], {"X": of_bytes(1, 4, 5, 5, seed=2)}, constants)
    assert len(multiplied(graph)) == 1
    assert "u8(" in "".join(str(n.program) for n in graph.computes)


def test_products_of_signed_activations_stay_signed() -> None:
    graph = computed([node("MatMulInteger", "X W")], {"X": of_bytes(5, 16), "W": of_bytes(16, 6, seed=1)}, {})
    assert len(multiplied(graph)) == 1
    assert "u8" not in "".join(str(n.program) for n in graph.computes)


def test_sums_of_weights_are_multiplied_by_zero_points_ahead_of_calls() -> None:
    nodes, constants = qdq_conv(of_bytes(4, 4, 3, 3), np.zeros(4, I8), x_zero=13)
    graph = computed(nodes, {"X": random(1, 4, 6, 6)}, constants, step=0.06)
    (summed,) = sums(graph)
    assert summed.endswith("(i32(C[r0, r1, r2, i0]) * i32(B[]))")


@pytest.mark.parametrize("zero", [np.array(100, U8), np.arange(90, 98, dtype=U8)], ids=["one", "channels"])
def test_unsigned_weights_become_signed_and_windows_share_sums_of_channels(zero: Any) -> None:
    nodes, constants = qdq_conv(of_bytes(8, 4, 3, 3, dtype=U8), zero)
    graph = computed(nodes, X, constants, step=0.05)
    assert len(multiplied(graph)) == 1
    assert {array.dtype for array in graph.constants.values() if array.size == 8 * 4 * 9} == {np.dtype(I8)}
    found = [line.partition("sum[")[2].partition("]")[0] for line in _summed(graph) if "Y[" not in line]
    assert sorted(found).count("r0 < 4") == 1  # the channels of each place
    assert sorted(found).count("r0 < 3, r1 < 3") == 1  # the places of each window


@pytest.mark.parametrize(
    ("between", "depth"),
    [
        ([node("Transpose", "Xq", "Xm", perm=[0, 2, 1])], 12),
        ([node("Reshape", "Xq S", "Xm")], 8),
        ([node("Reshape", "Xq S", "Xv"), node("Transpose", "Xv", "Xm", perm=[1, 0, 2])], 8),
    ],
    ids=["moved", "viewed", "both"],
)
@pytest.mark.parametrize("form", ["operator", "qdq"])
def test_what_moves_signed_bytes_moves_unsigned_ones(between: list[Any], depth: int, form: str) -> None:
    constants = {
        "sx": np.float32(1 / 50),
        "zx": np.array(-7, I8),
        "S": np.array([2, 12, 8]),
        "W": of_bytes(depth, 6),
        "sw": np.float32(0.01),
        "zw": np.array(0, I8),
    }
    nodes = [node("QuantizeLinear", "X sx zx", "Xq"), *between]
    if form == "operator":
        nodes += [node("MatMulInteger", "Xm W zx zw")]
    else:
        nodes += [node("DequantizeLinear", "Xm sx zx", "Xd"), node("DequantizeLinear", "W sw zw", "Wd")]
        nodes += [node("MatMul", "Xd Wd")]
    graph = computed(nodes, {"X": random(2, 12, 8)}, constants)
    assert len(multiplied(graph)) == 1
    dtypes = {graph.types[name].dtype for one in graph.computes for name in one.outputs if name.startswith("X")}
    assert dtypes == {DType.U8}
    assert not [one for one in graph.computes if one.op == "Cast"]
