"""PyTorch's side of `benchmarks.kernels`: eager, channels last, in a virtual environment that has PyTorch.

Run by that environment's Python; it needs PyTorch and NumPy and nothing of the project but `benchmarks.blocks` and
`benchmarks.arrays`. It answers as `benchmarks.kernel_side` does.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]
import torch.nn.functional as nn  # type: ignore[import-not-found]

from benchmarks.arrays import load_aligned
from benchmarks.blocks import block

Tensor = Any
Call = Callable[[], Tensor]


def channels_first(x: Tensor) -> Tensor:
    """[batch, space, channel] as [batch, channel, space], channels still last in memory."""
    return torch.movedim(x, -1, 1)


def channels_last(y: Tensor) -> np.ndarray:
    return np.ascontiguousarray(torch.movedim(y, 1, -1).numpy())


def contiguous_array(y: Tensor) -> np.ndarray:
    return np.ascontiguousarray(y.numpy())


def filters(k: Tensor) -> Tensor:
    """[taps, channel of the group, output channel] as [output channel, channel of the group, taps], channels last."""
    dims = k.dim()
    moved = k.permute(dims - 1, dims - 2, *range(dims - 2))
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return moved.contiguous(memory_format=formats.get(dims, torch.contiguous_format))


def conv(x: Tensor, k: Tensor, p: Mapping[str, int]) -> Call:
    function = {3: nn.conv1d, 4: nn.conv2d, 5: nn.conv3d}[x.dim()]
    x, k = channels_first(x), filters(k)
    if x.dim() == 3:
        x = x.contiguous()  # PyTorch has no channels-last layout of one dimension
    return lambda: function(x, k, stride=p["S"], padding=p["P"], dilation=p["D"], groups=p["G"])


def depthwise(x: Tensor, k: Tensor, p: Mapping[str, int]) -> Call:
    x, k = channels_first(x), k.permute(2, 0, 1).unsqueeze(1).contiguous()
    return lambda: nn.conv2d(x, k, stride=p["S"], padding=p["P"], dilation=p["D"], groups=p["C"])


def transposed_conv(x: Tensor, k: Tensor, p: Mapping[str, int]) -> Call:
    x, k = channels_first(x), k.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
    return lambda: nn.conv_transpose2d(
        x, k, stride=p["S"], padding=p["P"], output_padding=p["OPAD"], groups=p["G"], dilation=p["D"]
    )


def conv_bn_relu(x: Tensor, k: Tensor, bias: Tensor, scale: Tensor, offset: Tensor, p: Mapping[str, int]) -> Call:
    x, k, scale, offset = channels_first(x), filters(k), scale[:, None, None], offset[:, None, None]
    return lambda: torch.relu(nn.conv2d(x, k, bias, stride=p["S"], padding=p["P"]) * scale + offset)


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float, p: Mapping[str, int]) -> Call:
    return lambda: nn.layer_norm(x, (p["N"],), gamma, beta, eps)


# An operator's call, made of its inputs and parameters, and how its result is put in our order.
PEERS: Mapping[str, tuple[Callable[..., Call], Callable[[Tensor], np.ndarray]]] = {
    "matmul_nn": (lambda a, b, p: lambda: a @ b, contiguous_array),
    "batch_matmul_nn": (lambda a, b, p: lambda: torch.bmm(a, b), contiguous_array),
    "transpose_batch_matmul": (lambda q, k, p: lambda: q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1), contiguous_array),
    "conv1d_nlc": (conv, channels_last),
    "conv2d_nhwc": (conv, channels_last),
    "conv3d_ndhwc": (conv, channels_last),
    "conv2d_bn_relu_nhwc": (conv_bn_relu, channels_last),
    "depthwise_conv2d_nhwc": (depthwise, channels_last),
    "conv2d_transpose_nhwc": (transposed_conv, channels_last),
    "norm": (lambda x, p: lambda: torch.linalg.vector_norm(x, dim=(1, 2)), contiguous_array),
    "softmax": (lambda x, p: lambda: torch.softmax(x, -1), contiguous_array),
    "layer_norm": (layer_norm, contiguous_array),
    "bias_gelu": (lambda x, bias, p: lambda: nn.gelu(x + bias), contiguous_array),
    "scale_shift_add_relu": (lambda x, a, b, r, p: lambda: torch.relu(x * a + b[:, None]) + r, contiguous_array),
}


def prepare_call(spec: Mapping[str, Any]) -> Call:
    torch.set_num_threads(spec["threads"])
    arrays = [load_aligned(file) for file in spec["inputs"]]
    dtype = getattr(torch, spec.get("dtype", "float32"))
    inputs = [torch.from_numpy(a).to(dtype) if isinstance(a, np.ndarray) else a for a in arrays]
    make, ordered = PEERS[spec["operator"]]
    call = make(*inputs, spec["params"])
    np.save(spec["result"], ordered(call().float()))
    return call


def main() -> None:
    call: Call = time.perf_counter
    with torch.inference_mode():
        for line in sys.stdin:
            if line == "measure\n":
                print(json.dumps(block(call)), flush=True)
                continue
            call = prepare_call(json.loads(line))
            print(json.dumps({"version": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
