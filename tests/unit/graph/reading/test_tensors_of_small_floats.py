"""Nodes over floats of 8 and 4 bits, against what ONNX says of them, worked out in NumPy from all their numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import metasched as ms
from metasched.dtypes import Beyond, DType, float_format
from metasched.graph.reading.tensors import array_of, element_type, number_of
from tests.support.onnx_models import integers, node, random, run, unknown, value

EIGHT = [DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ]
SMALL = [*EIGHT, DType.F4E2M1]
LINE = 64  # bytes that the memory of each weight begins at a multiple of


def numbers_of(dtype: DType) -> Any:
    """All finite numbers of a type."""
    every = np.arange(2 ** (float_format(dtype).sign + 1), dtype=np.uint8).view(dtype.numpy).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


def kept_in_range(x: Any, dtype: DType) -> Any:
    """Each number's nearest one of a type; what is beyond the largest becomes it, and NaN stays."""
    known = numbers_of(dtype)
    x = np.clip(np.asarray(x, np.float64), known[0], known[-1])
    distances = np.abs(known - np.nan_to_num(x)[..., None])
    # Of two that are as near, the even one: its step from zero is a whole number of twice the digits.
    nearest = distances.min(-1, keepdims=True)
    steps = known / np.exp2(np.floor(np.log2(np.where(known == 0, 1, np.abs(known)))) - float_format(dtype).kept_bits)
    lowest = np.exp2(float_format(dtype).smallest_exponent - float_format(dtype).kept_bits)
    steps = np.where(np.abs(known) < dtype.smallest_normal, known / lowest, steps)
    odd = np.where(distances == nearest, np.abs(steps) % 2, 2)
    return np.where(np.isnan(x), np.nan, known[odd.argmin(-1)])


def given(dtype: DType) -> Any:
    """Numbers and middles of a type, and what is far beyond."""
    known = numbers_of(dtype)
    largest = known[-1]
    far = np.array([largest * 1.01, largest * 1.5, 1e9, np.inf, np.nan])
    return np.concatenate([known, (known[1:] + known[:-1]) / 2, far, -far]).astype(np.float32)


def float64(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


@pytest.mark.parametrize("dtype", EIGHT, ids=str)
def test_a_cast_keeps_to_the_range(dtype: DType) -> None:
    x = given(dtype)
    found = run("Cast", x, to=number_of(dtype))
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(float64(found), kept_in_range(x, dtype))
    like = run("CastLike", x, np.zeros(1, dtype.numpy))
    np.testing.assert_array_equal(like.view(np.uint8), found.view(np.uint8))


@pytest.mark.parametrize("dtype", EIGHT, ids=str)
@pytest.mark.parametrize("op", ["Cast", "CastLike", "QuantizeLinear"])
def test_without_saturation_what_is_beyond_is_infinity_or_nan(op: str, dtype: DType) -> None:
    largest = float_format(dtype).largest
    x = np.array([largest, -largest, 2 * largest, -2 * largest, np.inf, -np.inf, np.nan], np.float32)
    match op:
        case "Cast":
            found = run("Cast", x, to=number_of(dtype), saturate=0)
        case "CastLike":
            found = run("CastLike", x, np.zeros(1, dtype.numpy), saturate=0)
        case _:
            found = run("QuantizeLinear", x, np.float32(1), np.zeros((), dtype.numpy), saturate=0)
    beyond = np.inf if float_format(dtype).beyond is Beyond.INFINITY else np.nan
    np.testing.assert_array_equal(float64(found), [largest, -largest, beyond, -beyond, beyond, -beyond, np.nan])


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.uint8, np.bool_])
def test_casts_from_other_types(source: Any, dtype: DType) -> None:
    x = np.array([0, 1, 3, 100]).astype(source)
    found = run("Cast", x, to=number_of(dtype))
    np.testing.assert_array_equal(float64(found), kept_in_range(x.astype(np.float64), dtype))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize("wide", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_casts_to_wider_floats_are_exact(wide: Any, dtype: DType) -> None:
    x = numbers_of(dtype).astype(dtype.numpy)
    found = run("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(wide)))
    assert found.dtype == wide
    np.testing.assert_array_equal(float64(found), numbers_of(dtype))


def spread(scales: Any, shape: tuple[int, ...], axis: int, block: int) -> Any:
    """A scale for each element."""
    if block:
        return np.repeat(scales, block, axis).take(range(shape[axis]), axis)
    if scales.ndim:
        return scales.reshape([-1 if dim == axis % len(shape) else 1 for dim in range(len(shape))])
    return scales


LAYOUTS = [(1, 0, ()), (0, 0, (6,)), (1, 0, (10,)), (-1, 0, (3,)), (0, 4, (2, 10, 3)), (1, 4, (6, 3, 3))]


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize(("axis", "block", "shape"), LAYOUTS)
def test_quantised_and_back(axis: int, block: int, shape: tuple[int, ...], dtype: DType) -> None:
    x = random(6, 10, 3) * np.float32(float_format(dtype).largest)
    scales = np.abs(random(*shape, seed=1)) + np.float32(0.5)
    more: dict[str, Any] = {"axis": axis, **({"block_size": block} if block else {})}
    zero = np.zeros(shape, dtype.numpy)
    opset = 23 if dtype is DType.F4E2M1 else 21
    quantised = run("QuantizeLinear", x, scales, zero, opset=opset, **more)
    assert quantised.dtype == dtype.numpy
    each = spread(scales, x.shape, axis, block)
    np.testing.assert_array_equal(float64(quantised), kept_in_range(x / each, dtype))
    expected = float64(quantised) * each
    for zeros in (None, zero):
        back = run("DequantizeLinear", quantised, scales, zeros, opset=opset, **more)
        np.testing.assert_allclose(float64(back), expected, rtol=1e-6)


def test_the_type_may_be_said_without_a_zero_point() -> None:
    x = random(4)
    found = run("QuantizeLinear", x, np.float32(1), output_dtype=TensorProto.FLOAT8E5M2)
    np.testing.assert_array_equal(float64(found), kept_in_range(x, DType.F8E5M2))


@pytest.mark.parametrize("wanted", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_what_is_dequantised_may_have_a_type_of_its_own(wanted: Any) -> None:
    x, scale = random(5).astype(ml_dtypes.float8_e4m3fn), np.float32(0.3)
    found = run("DequantizeLinear", x, scale, opset=23, output_dtype=helper.np_dtype_to_tensor_dtype(np.dtype(wanted)))
    assert found.dtype == wanted
    np.testing.assert_array_equal(found, (x.astype(np.float32) * scale).astype(wanted))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("up", [2.0**-127, 2.0**-127, 1, 2, 4, 4, 2.0**127, 2.0**127]),
        ("down", [2.0**-127, 2.0**-127, 1, 1, 2, 2, 2.0**127, 2.0**127]),
        ("nearest", [2.0**-127, 2.0**-127, 1, 1, 2, 4, 2.0**127, 2.0**127]),
    ],
)
def test_casts_to_powers_of_two(how: str, expected: list[float]) -> None:
    x = np.array([0, 1e-42, 1, 1.4, 2.5, 3, 3e38, np.inf], np.float32)
    for op, more in (("Cast", {"to": number_of(DType.F8E8M0)}), ("CastLike", {})):
        like = () if more else (np.ones(1, DType.F8E8M0.numpy),)
        options: dict[str, Any] = {**more, "round_mode": how}
        found = run(op, x, *like, opset=25, **options)
        assert found.dtype == DType.F8E8M0.numpy
        np.testing.assert_array_equal(float64(found), expected)
    beyond = run("Cast", x, opset=25, to=number_of(DType.F8E8M0), round_mode=how, saturate=0)
    assert np.isnan(float64(beyond)).tolist() == [True, *[False] * 5, how != "down", True]  # 3e38 is below 2**128


def test_scales_may_be_powers_of_two() -> None:
    x, scale = random(2, 64).astype(ml_dtypes.float8_e4m3fn), np.exp2(integers(2, 2)).astype(ml_dtypes.float8_e8m0fnu)
    more: dict[str, Any] = {"axis": 1, "block_size": 32, "output_dtype": TensorProto.FLOAT}
    found = run("DequantizeLinear", x, scale, opset=25, **more)
    np.testing.assert_array_equal(found, x.astype(np.float32) * np.repeat(scale.astype(np.float32), 32, 1))


@pytest.mark.parametrize("dtype", EIGHT, ids=str)
def test_what_only_moves_keeps_its_bits(dtype: DType) -> None:
    x = np.arange(256, dtype=np.uint8).view(dtype.numpy).reshape(16, 16)
    np.testing.assert_array_equal(run("Transpose", x, perm=[1, 0]).view(np.uint8), x.T.view(np.uint8))
    joined = run("Concat", x, x, axis=0)
    np.testing.assert_array_equal(joined.view(np.uint8), np.concatenate([x, x]).view(np.uint8))


@pytest.mark.parametrize("dtype", EIGHT, ids=str)
def test_constants_are_read_from_both_fields(dtype: DType) -> None:
    codes = np.arange(256, dtype=np.uint8)
    raw = TensorProto(name="t", data_type=number_of(dtype), dims=[16, 16], raw_data=codes.tobytes())
    one_by_one = TensorProto(name="t", data_type=number_of(dtype), dims=[16, 16], int32_data=codes.tolist())
    for tensor in (raw, one_by_one):
        type_, array = array_of(tensor, None)
        assert type_.dtype is dtype
        np.testing.assert_array_equal(array.view(np.uint8).reshape(-1), codes)


def test_numbers_of_types_are_onnxs() -> None:
    assert [number_of(dtype) for dtype in EIGHT] == [17, 18, 19, 20]
    assert [element_type(number) for number in (17, 18, 19, 20)] == EIGHT
    assert number_of(DType.BF16) == TensorProto.BFLOAT16


def weights(dtype: DType, k: int, n: int) -> tuple[Any, Any]:
    """A matrix of a small type as an initializer, and what it stands for."""
    w = kept_in_range(random(k, n, seed=3), dtype)
    codes = w.astype(dtype.numpy).view(np.uint8).reshape(-1)
    packed = codes if dtype is not DType.F4E2M1 else codes[0::2] | codes[1::2] << 4
    return TensorProto(name="q", data_type=number_of(dtype), dims=[k, n], raw_data=packed.tobytes()), w


@pytest.mark.parametrize(("dtype", "rows", "block"), list(product([*EIGHT, DType.F4E2M1], [1, 24], [0, 32])), ids=str)
def test_weights_stay_small_in_memory(dtype: DType, rows: int, block: int) -> None:
    k, n = 256, 192
    tensor, w = weights(dtype, k, n)
    scales = np.abs(random(*((k // block, n) if block else (n,)), seed=1)) + np.float32(0.1)
    more = {"axis": 0, "block_size": block} if block else {"axis": 1}
    nodes = [node("DequantizeLinear", "q s", "w", **more), node("MatMul", "x w")]
    x = random(rows, k, seed=2)
    graph = helper.make_graph(
        nodes, "g", [value("x", x)], [unknown("Y")], [tensor, numpy_helper.from_array(scales, "s")]
    )
    net = ms.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))
    expected = x @ (w * spread(scales, w.shape, 0 if block else 1, block))
    np.testing.assert_allclose(net(x), expected, atol=1e-5 * float(np.abs(expected).max()))
    assert net.memory().weight_bytes <= len(tensor.raw_data) + scales.nbytes + 4 * LINE


def test_floats_of_four_bits_with_a_zero_point_are_shifted_by_it() -> None:
    tensor, w = weights(DType.F4E2M1, 16, 8)
    zero = TensorProto(name="z", data_type=number_of(DType.F4E2M1), dims=[], raw_data=bytes([0x2]))
    x = random(2, 16)
    nodes = [node("DequantizeLinear", "q s z", "w"), node("MatMul", "x w")]
    tensors = [tensor, numpy_helper.from_array(np.float32(0.5), "s"), zero]
    graph = helper.make_graph(nodes, "g", [value("x", x)], [unknown("Y")], tensors)
    net = ms.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))
    np.testing.assert_allclose(net(x), x @ ((w - 1.0) * 0.5), atol=1e-5)
