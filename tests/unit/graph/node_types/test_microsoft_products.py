"""Products of ONNX Runtime, against NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support import onnx_models
from tests.support.onnx_models import integers, random

run = partial(onnx_models.run, domain="com.microsoft")


def _convolution(x: Any, w: Any) -> Any:
    """Of 3 x 3 windows without a border."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("nchwrs,ocrs->nohw", windows, w)


@pytest.mark.parametrize(
    ("attributes", "of"),
    [
        ({"activation": "Relu"}, lambda x: np.maximum(x, 0)),
        ({"activation": "Clip", "activation_params": [0.0, 1.5]}, lambda x: np.clip(x, 0, 1.5)),
        ({"activation": "LeakyRelu", "activation_params": [0.25]}, lambda x: np.where(x < 0, x / 4, x)),
        ({}, lambda x: x),
    ],
)
def test_convolutions_with_a_sum_and_an_activation(attributes: dict[str, Any], of: Any) -> None:
    x, w, bias, added = random(1, 3, 6, 6), random(4, 3, 3, 3, seed=1), random(4, seed=2), random(1, 4, 4, 4, seed=3)
    whole = _convolution(x, w) + bias[:, None, None]
    np.testing.assert_allclose(run("FusedConv", x, w, bias, **attributes), of(whole), atol=1e-5)
    np.testing.assert_allclose(run("FusedConv", x, w, bias, added, **attributes), of(whole + added), atol=1e-5)


def test_an_activation_that_is_not_known_is_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="its activation is Spiral of 1 numbers"):
        run("FusedConv", random(1, 3, 6, 6), random(4, 3, 3, 3), activation="Spiral", activation_params=[1.0])


@pytest.mark.parametrize(("activation", "given"), [("LeakyRelu", []), ("HardSigmoid", []), ("HardSigmoid", [0.2])])
def test_an_activation_without_its_numbers_is_refused(activation: str, given: list[float]) -> None:
    message = f"its activation is {activation} of {len(given)} numbers, and it takes"
    parameters = {"activation_params": given} if given else {}
    with pytest.raises(ms.RefusedModel, match=message):
        run("FusedConv", random(1, 3, 6, 6), random(4, 3, 3, 3), activation=activation, **parameters)
    named = dict(zip(["activation_alpha", "activation_beta"], given, strict=False))
    with pytest.raises(ms.RefusedModel, match=message):
        run("FusedGemm", random(4, 5), random(5, 6), activation=activation, **named)


def test_gemm_with_an_activation() -> None:
    a, b, c = random(4, 5), random(6, 5, seed=1), random(6, seed=2)
    wanted = 0.5 * a @ b.T + 2 * c
    made = run("FusedGemm", a, b, c, transB=1, alpha=0.5, beta=2.0, activation="LeakyRelu", activation_alpha=0.3)
    np.testing.assert_allclose(made, np.where(wanted < 0, 0.3 * wanted, wanted), atol=1e-5)


def test_products_of_transposed_operands() -> None:
    a, b = random(2, 3, 4, 5), random(2, 3, 6, 5, seed=1)
    made = run("FusedMatMul", a, b, transB=1, alpha=0.25)
    np.testing.assert_allclose(made, a @ b.swapaxes(2, 3) / 4, atol=1e-5)
    a, b = random(4, 2, 3, 5), random(2, 3, 5, 6, seed=1)
    np.testing.assert_allclose(run("FusedMatMul", a, b, transBatchA=1), a.transpose(1, 2, 0, 3) @ b, atol=1e-5)
    b = random(2, 3, 4, 6, seed=1)
    made = run("FusedMatMul", a, b, transBatchA=1, transA=1)
    np.testing.assert_allclose(made, a.transpose(1, 2, 3, 0) @ b, atol=1e-5)
    x, y = random(5, 4), random(5, 6, seed=1)
    np.testing.assert_allclose(run("TransposeMatMul", x, y, transA=1), x.T @ y, atol=1e-5)
    made = run("FusedMatMulActivation", x, y, transA=1, activation="Relu")
    np.testing.assert_allclose(made, np.maximum(x.T @ y, 0), atol=1e-5)


# --- bytes

_B = integers(40, 20, low=-128, high=128, seed=1, dtype=np.int8)
_BIAS = random(20, seed=2)


def test_products_of_bytes_are_floats() -> None:
    a = integers(3, 6, 40, low=0, high=256, dtype=np.uint8)
    scales = np.float32(0.02), (random(20, seed=3) + 3).astype(np.float32)
    made = run("MatMulIntegerToFloat", a, _B, *scales, np.uint8(100), np.int8(3), _BIAS, constants=(1, 2, 3, 4, 5, 6))
    wanted = ((a.astype(float) - 100) @ (_B.astype(float) - 3)) * scales[0] * scales[1] + _BIAS
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("factor", [1.0, 0.0])
def test_a_matrix_is_quantised_by_the_range_of_its_elements(factor: float) -> None:
    x = random(6, 40) * np.float32(factor)
    made = run("DynamicQuantizeMatMul", x, _B, np.float32(0.01), np.int8(3), _BIAS, constants=(1, 2, 3, 4))
    low, high = min(x.min(), 0), max(x.max(), 0)
    scale = (high - low) / 255 if high > low else np.float32(1)
    zero = np.rint(-low / scale)
    q = np.clip(np.rint(x / scale) + zero, 0, 255)
    wanted = ((q - zero) @ (_B.astype(float) - 3)) * scale * 0.01 + _BIAS
    np.testing.assert_allclose(made, wanted, atol=1e-4)


def test_gemm_of_bytes_gives_bytes_or_floats() -> None:
    a, c = integers(40, 6, low=0, high=256, dtype=np.uint8), integers(20, low=-500, high=500, seed=2)
    given = (a, np.float32(0.02), np.uint8(100), np.ascontiguousarray(_B.T), np.float32(0.01), np.int8(2))
    total = (a.T.astype(float) - 100) @ (_B.astype(float) - 2)
    known = (1, 2, 3, 4, 5)
    made = run("QGemm", *given, transA=1, transB=1, alpha=0.5, constants=known)
    np.testing.assert_allclose(made, total * 0.0001, rtol=1e-5)
    y = np.float32(0.05), np.uint8(100)
    made = run("QGemm", *given, c, *y, transA=1, transB=1, constants=(*known, 6, 7, 8))
    wanted = np.clip(np.rint((total + c) * 0.0002 / 0.05) + 100, 0, 255)
    assert made.dtype == np.uint8
    assert abs(made - wanted).max() <= 1


def test_convolutions_of_bytes_with_channels_last() -> None:
    x, w = (integers(*shape, low=0, high=256, dtype=np.uint8) for shape in ((1, 6, 6, 3), (4, 3, 3, 3)))
    y = np.float32(2), np.uint8(100)
    made = run("QLinearConv", x, np.float32(0.1), np.uint8(90), w, np.float32(0.1), np.uint8(120), *y, channels_last=1)
    total = _convolution(x.transpose(0, 3, 1, 2).astype(float) - 90, w.astype(float) - 120) * 0.01
    wanted = np.clip(np.rint(total / 2) + 100, 0, 255).transpose(0, 2, 3, 1)
    assert abs(made - wanted).max() <= 1
