"""Operators agree with PyTorch, where it is installed: a second opinion on what their names mean there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasched as ms

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.peers
nn = torch.nn.functional

Tensor = Any
Array = np.ndarray[Any, Any]


def first(x: Tensor) -> Tensor:
    """Channels from last to first."""
    return x.movedim(-1, 1)


def last(x: Tensor) -> Tensor:
    return x.movedim(1, -1)


CASES: dict[str, tuple[dict[str, int], Callable[..., Tensor]]] = {
    "conv1d_ncl": (
        {"N": 2, "L": 13, "CI": 4, "CO": 6, "S": 2, "P": 2, "D": 2, "G": 2},
        lambda x, k: nn.conv1d(x, k, stride=2, padding=2, dilation=2, groups=2),
    ),
    "conv2d_nchw": (
        {"N": 2, "H": 9, "W": 7, "CI": 4, "CO": 6, "S": 2, "P": 2, "D": 2, "G": 2},
        lambda x, k: nn.conv2d(x, k, stride=2, padding=2, dilation=2, groups=2),
    ),
    "conv2d_nhwc": (
        {"H": 9, "W": 7, "CI": 4, "CO": 6},
        lambda x, k: last(nn.conv2d(first(x), k.permute(3, 2, 0, 1), padding=1)),
    ),
    "conv3d_ncdhw": (
        {"Z": 3, "H": 5, "W": 7, "CI": 3, "CO": 2, "S": 2},
        lambda x, k: nn.conv3d(x, k, stride=2, padding=1),
    ),
    "depthwise_conv2d_nchw": (
        {"H": 9, "W": 7, "C": 5},
        lambda x, k: nn.conv2d(x, k[:, None], padding=1, groups=5),
    ),
    "conv2d_transpose_nhwc": (
        {"H": 4, "W": 5, "CI": 3, "CO": 2, "R": 4, "S": 2, "P": 1},
        lambda x, k: last(nn.conv_transpose2d(first(x), k.permute(2, 3, 0, 1), stride=2, padding=1)),
    ),
    "conv1d_transpose_ncl": (
        {"N": 2, "L": 7, "CI": 4, "CO": 6, "R": 3, "S": 3, "P": 1, "D": 2, "G": 2, "OPAD": 2},
        lambda x, k: nn.conv_transpose1d(x, k, stride=3, padding=1, output_padding=2, groups=2, dilation=2),
    ),
    "conv2d_transpose_nchw": (
        {"N": 2, "H": 4, "W": 5, "CI": 4, "CO": 6, "R": 3, "S": 2, "P": 2, "D": 3, "G": 2, "OPAD": 1},
        lambda x, k: nn.conv_transpose2d(x, k, stride=2, padding=2, output_padding=1, groups=2, dilation=3),
    ),
    "conv3d_transpose_ncdhw": (
        {"Z": 2, "H": 4, "W": 3, "CI": 4, "CO": 2, "R": 2, "S": 1, "P": 1, "D": 2, "G": 2, "OPAD": 1},
        lambda x, k: nn.conv_transpose3d(x, k, padding=1, output_padding=1, groups=2, dilation=2),
    ),
    "bias_gelu": ({"M": 5, "N": 7}, lambda x, bias: nn.gelu(x + bias)),
    "bias_gelu_tanh": ({"M": 5, "N": 7}, lambda x, bias: nn.gelu(x + bias, approximate="tanh")),
    "dense_bias_gelu": ({"M": 5, "N": 7, "K": 6}, lambda a, b, bias: nn.gelu(a @ b + bias)),
    "log_softmax": ({"M": 5, "N": 7}, lambda x: nn.log_softmax(x, -1)),
    "layer_norm": ({"M": 5, "N": 7}, lambda x, g, b, eps: nn.layer_norm(x, (7,), g, b, eps)),
    "batch_norm_nhwc": (
        {"N": 3, "H": 5, "W": 4, "C": 6},
        lambda x, g, b, eps: last(nn.batch_norm(first(x), None, None, g, b, training=True, eps=eps)),
    ),
    "batch_norm_nchw": (
        {"N": 3, "H": 5, "W": 4, "C": 6},
        lambda x, g, b, eps: nn.batch_norm(x, None, None, g, b, training=True, eps=eps),
    ),
    "max_pool2d_nhwc": ({"H": 9, "W": 7, "C": 3}, lambda x: last(nn.max_pool2d(first(x), 3, 2, 1))),
    "max_pool2d_nchw": ({"H": 9, "W": 7, "C": 3, "D": 2}, lambda x: nn.max_pool2d(x, 3, 2, 1, dilation=2)),
    "max_pool3d_ndhwc": ({"Z": 3, "H": 9, "W": 7, "C": 3}, lambda x: last(nn.max_pool3d(first(x), 3, 2, 1))),
    "avg_pool2d_nhwc": (
        {"H": 9, "W": 7, "C": 3, "R": 3, "P": 1},
        lambda x: last(nn.avg_pool2d(first(x), 3, 2, 1)),
    ),
    "avg_pool2d_nchw": (
        {"H": 9, "W": 7, "C": 3, "R": 3, "P": 1, "COUNT_PAD": 0},
        lambda x: nn.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    "avg_pool1d_nlc": (
        {"L": 9, "C": 3, "R": 4, "S": 1, "P": 2, "COUNT_PAD": 0},
        lambda x: last(nn.avg_pool1d(first(x), 4, 1, 2, count_include_pad=False)),
    ),
    "batch_attention": (
        {"BATCH": 2, "HEADS": 3, "L": 5, "M": 7, "D": 4, "E": 3},
        nn.scaled_dot_product_attention,
    ),
}


def arguments(program: ms.Program) -> list[Array | float]:
    rng = np.random.default_rng(0)
    shapes = {b.name: tuple(int(n.value) for n in b.shape) for b in program.inputs}  # type: ignore[attr-defined]
    order = program.func.order
    return [rng.standard_normal(shapes[name]).astype(np.float32) if name in shapes else 1e-3 for name in order]


@pytest.mark.parametrize("name", list(CASES))
def test_agrees_with_pytorch(name: str) -> None:
    params, function = CASES[name]
    program = ms.operator(name, **params)
    given = arguments(program)
    expected = function(*(torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in given)).numpy()
    actual = ms.compile(program, trace=ms.Schedule(program).trace)(*given)
    np.testing.assert_allclose(actual, expected, rtol=3e-5, atol=3e-5)
