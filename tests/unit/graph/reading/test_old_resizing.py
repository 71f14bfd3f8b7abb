"""Models of opsets before 11 are resampled as ONNX Runtime resamples them, whose results these formulas give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

import metasched as ms
from tests.support.onnx_models import random


def resampled(x: Any, axis: int, scale: float, mode: str) -> Any:
    """An axis resampled: an output looks at its number over the scale."""
    extent = x.shape[axis]
    places = np.arange(int(np.float32(extent) * np.float32(scale)), dtype=np.float32) / np.float32(scale)
    if mode == "nearest":
        chosen = np.ceil(places) if scale < 1 else np.floor(places)
        return x.take(np.clip(chosen, 0, extent - 1).astype(int), axis)
    places = np.clip(places, 0, extent - 1)
    low = np.floor(places).astype(int)
    part = (places - low).reshape([-1 if dim == axis else 1 for dim in range(x.ndim)])
    return x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, extent - 1), axis) * part


def loaded(opset: int, text: str) -> ms.Network:
    return ms.load_onnx(onnx.parser.parse_model(f'<ir_version: 5, opset_import: ["": {opset}]> {text}'))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize(
    ("opset", "op", "scales"),
    [
        (9, "Upsample", (2, 2)),
        (9, "Upsample", (2.7, 1.3)),
        (10, "Resize", (1.5, 2)),
        (10, "Resize", (0.6, 0.4)),
        (10, "Resize", (1.5, 0.6)),
    ],
)
def test_an_output_looks_at_its_number_over_the_scale(
    opset: int, op: str, scales: tuple[float, ...], mode: str
) -> None:
    x = random(1, 2, 5, 7)
    net = loaded(
        opset,
        f"m (float[1, 2, 5, 7] x) => (y) <float[4] s = {{1, 1, {scales[0]}, {scales[1]}}}> {{"
        f' y = {op}<mode = "{mode}">(x, s) }}',
    )
    expected = resampled(resampled(x, 2, scales[0], mode), 3, scales[1], mode)
    np.testing.assert_allclose(net(x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_scales_that_are_an_attribute(mode: str) -> None:
    x = random(1, 1, 3, 4)
    net = loaded(8, f'm (float[1, 1, 3, 4] x) => (y) {{ y = Upsample<mode="{mode}", scales=[1.0, 1.0, 1.5, 2.5]>(x) }}')
    np.testing.assert_allclose(net(x), resampled(resampled(x, 2, 1.5, mode), 3, 2.5, mode), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("doubles", [True, False])
def test_a_branch_looks_where_it_did(doubles: bool) -> None:
    x = random(1, 1, 4, 4)
    net = loaded(
        10,
        """m (float[1, 1, 4, 4] x, bool c) => (float[1, 1, 8, 8] y) <float[4] s = {1, 1, 2, 2}> {
            y = If(c) <
                then_branch = first () => (float[1, 1, 8, 8] a) { a = Resize<mode = "linear">(x, s) },
                else_branch = second () => (float[1, 1, 8, 8] b) { t = Neg(x)  b = Resize<mode = "linear">(t, s) }>
        }""",
    )
    expected = resampled(resampled(x, 2, 2, "linear"), 3, 2, "linear")
    np.testing.assert_allclose(net(x, np.array(doubles)), expected if doubles else -expected, rtol=1e-5)


def test_from_opset_11_on_elements_are_looked_at_in_their_middle() -> None:
    x = np.float32([[[[1, 3]]]])
    net = loaded(
        11,
        "m (float[1, 1, 1, 2] x) => (y) <float[4] s = {1, 1, 1, 2}, float[0] r = {}> {"
        ' y = Resize<mode = "linear">(x, r, s) }',
    )
    np.testing.assert_allclose(net(x), [[[[1, 1.5, 2.5, 3]]]], rtol=1e-6)
