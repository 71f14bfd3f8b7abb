"""Weights of few bits: what they stand for, against NumPy, and that they stay packed in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import metasched as ms
from metasched.dtypes import DType, integer_range
from metasched.graph.builder import GraphBuilder, NodeOrigin
from metasched.graph.node_helpers.packed_numbers import number_in, numbers_in
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType
from tests.support.onnx_models import integers, node, random, unknown, value

LINE = 64  # bytes that the memory of each weight begins at a multiple of


def _site() -> NodeSite:
    return NodeSite(NodeOrigin("n", "Unpack", "y"), 21, (), {}, (True,), GraphBuilder())


def _numbers(packed: Any, bits: int, length: int, dtype: DType = DType.U8) -> Any:
    site = _site()
    array = np.asarray(packed, np.uint8)
    given = site.builder.constant("a", array, ValueType(DType.U8, array.shape))
    return numbers_in(site, given, bits, length, dtype).constant


def test_the_first_number_is_in_the_lowest_bits() -> None:
    np.testing.assert_array_equal(_numbers([[0x21, 0x43]], 4, 4), [[1, 2, 3, 4]])
    np.testing.assert_array_equal(_numbers([0b11100100], 2, 3), [0, 1, 2])
    np.testing.assert_array_equal(_numbers([0x8F], 4, 2, DType.I8), [-1, -8])
    assert number_in("B[k]", "k", 8) == "i32(B[k])"


def _tensor(name: str, numbers: Any, bits: int, signed: bool) -> Any:
    """An initializer of few bits, in raw bytes."""
    flat = numbers.reshape(-1).astype(np.int64) % 2**bits
    each = 8 // bits
    rows = np.pad(flat, (0, -len(flat) % each)).reshape(-1, each)
    data = (rows << (np.arange(each) * bits)).sum(-1).astype(np.uint8).tobytes()
    kind = {(4, True): TensorProto.INT4, (4, False): TensorProto.UINT4}[bits, signed]
    return TensorProto(name=name, data_type=kind, dims=numbers.shape, raw_data=data)


def _dequantised(q: Any, scales: Any, zeros: Any, axis: int, block: int) -> Any:
    """What ONNX says, in f64."""
    if block:
        scales, zeros = (np.repeat(part, block, axis).take(range(q.shape[axis]), axis) for part in (scales, zeros))
    elif scales.ndim:
        shape = [1, 1]
        shape[axis] = -1
        scales, zeros = scales.reshape(shape), zeros.reshape(shape)
    return (q.astype(np.float64) - zeros) * scales


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("axis", "block", "scale_shape"),
    [(0, 16, (5, 70)), (1, 16, (79, 5)), (1, 0, (70,)), (0, 0, (79,)), (1, 0, ())],
    ids=["blocks of rows", "blocks of columns", "columns", "rows", "one"],
)
@pytest.mark.parametrize("rows", [1, 5])
def test_products_with_dequantised_matrices(
    signed: bool, axis: int, block: int, scale_shape: tuple[int, ...], rows: int
) -> None:
    low, high = (-8, 8) if signed else (0, 16)
    q, x = integers(79, 70, low=low, high=high), random(rows, 79, seed=1)
    scales = random(*scale_shape, seed=2)
    zeros = integers(*scale_shape, low=low, high=high, seed=3)
    nodes = [
        node("DequantizeLinear", "q s z", "w", axis=axis, **({"block_size": block} if block else {})),
        node("MatMul", "x w"),
    ]
    tensors = [_tensor("q", q, 4, signed), numpy_helper.from_array(scales, "s"), _tensor("z", zeros, 4, signed)]
    graph = helper.make_graph(nodes, "g", [value("x", x)], [unknown("Y")], tensors)
    net = ms.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    expected = x @ _dequantised(q, scales, zeros, axis, block)
    np.testing.assert_allclose(net(x), expected, atol=1e-5 * float(np.abs(expected).max()))


def _network(rows: int, bits: int = 4, k: int = 512, n: int = 320, block: int = 32) -> tuple[ms.Network, Any, Any, int]:
    """A product with weights of few bits and a bias, what it takes, what it computes, and the bytes of its weights."""
    q, scales, bias = integers(n, k, low=0, high=2**bits), random(n, k // block, seed=1), random(n, seed=2)
    each = 8 // bits
    packed = (q.reshape(n, -1, each) << (np.arange(each) * bits)).sum(-1).astype(np.uint8).reshape(n, k // block, -1)
    x = random(rows, k, seed=3)
    product = node("MatMulNBits", "x q s - - b", "y", domain="com.microsoft", N=n, K=k, bits=bits, block_size=block)
    tensors = [numpy_helper.from_array(a, name) for name, a in {"q": packed, "s": scales, "b": bias}.items()]
    graph = helper.make_graph([product, node("Relu", "y")], "g", [value("x", x)], [unknown("Y")], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    net = ms.load_onnx(helper.make_model(graph, opset_imports=opsets))
    weights = (q - 2.0 ** (bits - 1)) * np.repeat(scales, block, 1)
    return net, x, np.maximum(x @ weights.T + bias, 0), packed.nbytes + scales.nbytes + bias.nbytes


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 40])
def test_weights_stay_packed_in_memory(rows: int, bits: int) -> None:
    net, x, expected, given = _network(rows, bits)
    np.testing.assert_allclose(net(x), expected, atol=1e-5 * float(np.abs(expected).max()))
    (compute,) = net.optimised.computes  # the product, what unpacks its weights, the bias and the activation
    assert sum(array.nbytes for array in net.optimised.constants.values()) == given
    assert net.memory().weight_bytes <= given + LINE * len(compute.inputs)
    assert net.memory().arena_bytes < 8 * x.nbytes
    (schedule,) = [step.schedule for step in net.steps]
    assert schedule is not None
    assert ("transform_layout" in schedule, "common_factor" in schedule) == (
        rows > 1,
        rows == 1,
    )  # what `unpacking` does


def test_columns_that_fill_no_panel() -> None:
    net, x, expected, _ = _network(3, n=70)
    np.testing.assert_allclose(net(x), expected, atol=1e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("signed", [True, False])
def test_zero_points_of_few_bits_say_what_is_quantised_to(signed: bool) -> None:
    x = random(4, 4)
    tensors = [numpy_helper.from_array(np.float32(0.1), "s"), _tensor("z", np.array(1), 4, signed)]
    graph = helper.make_graph([node("QuantizeLinear", "x s z")], "g", [value("x", x)], [unknown("Y")], tensors)
    found = ms.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))(x)
    dtype = DType.I4 if signed else DType.U4
    assert found.dtype == dtype.numpy
    expected = np.clip(np.rint(x / np.float32(0.1)) + 1, *integer_range(dtype))
    np.testing.assert_array_equal(found.astype(np.float32), expected)


def test_a_constant_of_few_bits_says_what_is_cast_to() -> None:
    x = integers(6, low=-20, high=20)
    graph = helper.make_graph(
        [node("CastLike", "x z")], "g", [value("x", x)], [unknown("Y")], [_tensor("z", np.array(1), 4, True)]
    )
    found = ms.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))(x)
    assert found.dtype == DType.I4.numpy
    np.testing.assert_array_equal(found.astype(np.int32), (x + 8) % 16 - 8)


def test_bytes_that_do_not_fit_the_shape() -> None:
    tensor = _tensor("q", integers(4, 4, low=0, high=8), 4, False)
    tensor.raw_data = tensor.raw_data[:-1]
    x = random(2, 4)
    nodes = [node("DequantizeLinear", "q s", "w"), node("MatMul", "x w")]
    tensors = [tensor, numpy_helper.from_array(np.float32(0.1), "s")]
    graph = helper.make_graph(nodes, "g", [value("x", x)], [unknown("Y")], tensors)
    with pytest.raises(ms.NetworkError, match="the tensor `q` has 7 bytes, and its shape takes 8"):
        ms.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
