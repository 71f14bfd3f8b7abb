"""Functions of quantised tensors of ONNX Runtime, against NumPy: it gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support import onnx_models

run = partial(onnx_models.run, domain="com.microsoft")
_X, _Y = (np.float32(0.02), np.uint8(120)), (np.float32(0.05), np.uint8(100))


def _bytes(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def _floats(q: Any, scale: Any, zero: Any) -> Any:
    return (q.astype(np.float64) - zero) * scale


def _again(x: Any, scale: Any, zero: Any) -> Any:
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + zero, limits.min, limits.max).astype(zero.dtype)


def _close(made: Any, wanted: Any) -> None:
    """Bytes are equal, but for ties that rounding of f32 crosses."""
    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
    different = made.astype(int) - wanted
    assert abs(different).max(initial=0) <= 1
    assert np.count_nonzero(different) <= 1 + made.size // 50


@pytest.mark.parametrize(("op", "of"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
def test_sums_and_products(op: str, of: Callable[[Any, Any], Any]) -> None:
    a, b = _bytes(3, 20), _bytes(20, seed=1)
    wanted = _again(of(_floats(a, *_X), _floats(b, *_Y)), np.float32(0.07), np.uint8(90))
    _close(run(op, a, *_X, b, *_Y, np.float32(0.07), np.uint8(90)), wanted)
    known = (1, 2, 3, 4, 5, 6, 7)
    _close(run(op, a, *_X, b, *_Y, np.float32(0.07), np.uint8(90), constants=known), wanted)


def test_a_zero_point_may_be_left_out() -> None:
    a = _bytes(3, 20)
    made = run("QLinearSigmoid", a, _X[0], None, np.float32(1 / 256))
    _close(made, _again(1 / (1 + np.exp(-_floats(a, _X[0], 0))), 1 / 256, np.uint8(0)))


def test_leaky_relu_and_sigmoid() -> None:
    a = _bytes(3, 20)
    x = _floats(a, *_X)
    _close(run("QLinearLeakyRelu", a, *_X, *_Y, alpha=0.1), _again(np.where(x < 0, 0.1 * x, x), *_Y))
    _close(run("QLinearSigmoid", a, *_X, *_Y), _again(1 / (1 + np.exp(-x)), *_Y))


@pytest.mark.parametrize(("opset", "axes"), [(12, (1, 2)), (13, (1,))])
def test_softmax_of_an_axis_and_of_all_from_it_on(opset: int, axes: tuple[int, ...]) -> None:
    a = _bytes(3, 4, 5)
    power = np.exp(_floats(a, *_X))
    wanted = _again(power / power.sum(axes, keepdims=True), np.float32(1 / 256), np.uint8(0))
    _close(_softmax(a, opset), wanted)


def _softmax(a: Any, opset: int) -> Any:
    names = "X a b c d"
    node = onnx_models.node("QLinearSoftmax", names, domain="com.microsoft", axis=1, opset=opset)
    known = dict(zip("abcd", (*_X, np.float32(1 / 256), np.uint8(0)), strict=True))
    return ms.load_onnx(
        onnx_models.model([node], [onnx_models.value("X", a)], constants=known, domains=["com.microsoft"])
    )(X=a)


def test_parts_of_other_scales_are_joined() -> None:
    a, b = _bytes(2, 3), _bytes(2, 4, seed=1)
    made = run("QLinearConcat", *_X, a, *_X, b, *_Y, axis=1, constants=(0, 1, 3, 4, 6, 7))
    _close(made, np.concatenate([a, _again(_floats(b, *_Y), *_X)], 1))
    np.testing.assert_array_equal(made[:, :3], a)


def test_one_of_two_is_chosen() -> None:
    a, b = _bytes(4, 5), _bytes(5, seed=1)
    condition = _bytes(4, 5, seed=2) > 100
    made = run("QLinearWhere", condition, a, *_X, b, *_Y, np.float32(0.06), np.uint8(50))
    _close(made, _again(np.where(condition, _floats(a, *_X), _floats(b, *_Y)), np.float32(0.06), np.uint8(50)))


def test_means() -> None:
    a = _bytes(2, 3, 4, 5)
    mean = _floats(a, *_X).mean((2, 3), keepdims=True)
    wanted = _again(mean, *_Y)
    _close(run("QLinearReduceMean", a, *_X, *_Y, axes=[2, 3], keepdims=1), wanted)
    _close(run("QLinearGlobalAveragePool", a, *_X, *_Y), wanted)
    last = run("QLinearGlobalAveragePool", a.transpose(0, 2, 3, 1), *_X, *_Y, channels_last=1)
    _close(last, wanted.transpose(0, 2, 3, 1))


def test_pools_with_channels_first_and_last() -> None:
    a = _bytes(1, 3, 6, 6)
    x = _floats(a, *_X)
    wanted = _again(x.reshape(1, 3, 3, 2, 3, 2).mean((3, 5)), *_Y)
    windows = {"kernel_shape": [2, 2], "strides": [2, 2]}
    _close(run("QLinearAveragePool", a, *_X, *_Y, **windows), wanted)
    made = run("QLinearAveragePool", a.transpose(0, 2, 3, 1), *_X, *_Y, channels_last=1, **windows)
    _close(made, wanted.transpose(0, 2, 3, 1))


def test_attributes_that_are_not_known_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="no attribute `groups`, as it is known"):
        run("QLinearGlobalAveragePool", _bytes(1, 2, 3, 3), *_X, *_Y, groups=2)
    with pytest.raises(ms.RefusedModel, match="`channels_last` is of another type"):
        run("QLinearGlobalAveragePool", _bytes(1, 2, 3, 3), *_X, *_Y, channels_last=0.5)
    with pytest.raises(ms.RefusedModel, match="it has 3 inputs"):
        run("QLinearGlobalAveragePool", _bytes(1, 2, 3, 3), *_X)
