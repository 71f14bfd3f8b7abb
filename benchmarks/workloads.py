"""The programs that are compared, and what their peers are: NumPy as one would write it, and plain Numba loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import naive

Array = NDArray[Any]
EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Workload:
    """A program file with its parameters, the shapes of its inputs, and its peers.

    A peer takes the inputs and returns the output. `tolerance` bounds how far two peers may be apart, relative to the
    largest element.
    """

    name: str
    title: str
    file: Path
    shapes: tuple[tuple[int, ...], ...]
    peers: Mapping[str, Callable[..., Array]]
    params: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 1e-4

    def inputs(self) -> tuple[Array, ...]:
        """The same signed float32 numbers in every process."""
        rng = np.random.default_rng(0)
        return tuple(rng.standard_normal(shape, np.float32) for shape in self.shapes)


def numpy_dense_relu(a: Array, b: Array) -> Array:
    result: Array = np.maximum(a @ b, 0)
    return result


def numpy_conv2d(x: Array, k: Array) -> Array:
    """One matrix product over gathered patches (im2col), which is how NumPy does a convolution fast."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    n, h, w, c, r, s = patches.shape
    columns = patches.transpose(0, 1, 2, 4, 5, 3).reshape(n * h * w, r * s * c)
    return (columns @ k.reshape(r * s * c, -1)).reshape(n, h, w, -1)


def numpy_relu_pad_matmul(a: Array, d: Array) -> Array:
    b = np.maximum(a, 0)
    c = np.where(np.arange(b.shape[1]) < 400, b, np.float32(0))
    return c @ d


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "dense_relu",
            "dense + ReLU, 512 x 512 x 512",
            EXAMPLES / "dense_relu.ms",
            ((512, 512), (512, 512)),
            {
                "numpy": numpy_dense_relu,
                "naive Numba": naive.dense_relu_ijk,
                "naive Numba i-k-j": naive.dense_relu_ikj,
            },
        ),
        Workload(
            "conv2d",
            "conv2d 3 x 3, 14 x 14 x 256 -> 256, padded",
            EXAMPLES / "conv2d.ms",
            ((1, 14, 14, 256), (3, 3, 256, 256)),
            {"numpy": numpy_conv2d, "naive Numba": naive.conv2d},
        ),
        Workload(
            "relu_pad_matmul",
            "matmul behind ReLU and padding, 8 x 512 x 4",
            EXAMPLES / "relu_pad_matmul.ms",
            ((8, 512), (512, 4)),
            {"numpy": numpy_relu_pad_matmul, "naive Numba": naive.relu_pad_matmul},
        ),
    )
}
