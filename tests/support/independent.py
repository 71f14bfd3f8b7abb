"""What each operator computes, by NumPy and SciPy in float64: nothing here is shared with the project.

A function takes the operator's inputs in order, and its parameters by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

Array = np.ndarray[Any, Any]
Expected = Callable[..., Any]


# --- convolutions: channels last, then the same with channels first -----------------------------------------


def conv(x: Array, k: Array, *, S: int = 1, P: int = 0, D: int = 1, G: int = 1, **_: Any) -> Array:
    """x [batch, *space, channel], k [*taps, channel of the group, output channel]; any number of dimensions."""
    taps, out_channels = k.shape[:-2], k.shape[-1]
    x = np.pad(x, [(0, 0), *[(P, P)] * len(taps), (0, 0)])
    sizes = [(n - D * (r - 1) - 1) // S + 1 for n, r in zip(x.shape[1:-1], taps, strict=True)]
    y = np.zeros((x.shape[0], *sizes, G, out_channels // G))
    for tap in np.ndindex(*taps):
        window = tuple(slice(D * t, D * t + S * (n - 1) + 1, S) for t, n in zip(tap, sizes, strict=True))
        seen = x[:, *window, :]
        grouped = seen.reshape(*seen.shape[:-1], G, -1)
        y += np.einsum("...gc,cgo->...go", grouped, k[tap].reshape(-1, G, out_channels // G))
    return y.reshape(*y.shape[:-2], out_channels)


def first(x: Array) -> Array:
    """Channels from last to first, after the batch."""
    return np.moveaxis(x, -1, 1)


def conv_first(x: Array, k: Array, **params: Any) -> Array:
    return first(conv(np.moveaxis(x, 1, -1), np.moveaxis(k, (0, 1), (-1, -2)), **params))


def depthwise(x: Array, k: Array, **params: Any) -> Array:
    channels = x.shape[-1]
    return conv(x, k[..., None, :], **params, G=channels)


def depthwise_first(x: Array, k: Array, **params: Any) -> Array:
    return first(depthwise(np.moveaxis(x, 1, -1), np.moveaxis(k, 0, -1), **params))


def conv_transpose(x: Array, k: Array, *, S: int, P: int, D: int = 1, G: int = 1, OPAD: int = 0, **_: Any) -> Array:
    """Each input element adds a filter to the output, its taps D apart; group by group."""
    taps, group = k.shape[:-2], x.shape[-1] // G
    filters = k.reshape(*k.shape[:-1], G, -1)
    sizes = [(n - 1) * S + D * (r - 1) + 1 for n, r in zip(x.shape[1:-1], taps, strict=True)]
    y = np.zeros((x.shape[0], *(n + OPAD for n in sizes), G, filters.shape[-1]))
    for at in np.ndindex(*x.shape[1:-1]):
        window = tuple(slice(a * S, a * S + D * (r - 1) + 1, D) for a, r in zip(at, taps, strict=True))
        seen = x[:, *at].reshape(-1, G, group)
        y[:, *window] += np.einsum("ngc,...cgo->n...go", seen, filters)
    y = y[:, *(slice(P, n + OPAD - P) for n in sizes)]
    return y.reshape(*y.shape[:-2], -1)


def conv_transpose_first(x: Array, k: Array, *, G: int, **params: Any) -> Array:
    """k [channel, output channel of the group, *taps]: group by group."""
    groups = zip(np.split(np.moveaxis(x, 1, -1), G, axis=-1), np.split(k, G), strict=True)
    done = [conv_transpose(some, np.moveaxis(filters, (0, 1), (-2, -1)), **params) for some, filters in groups]
    return first(np.concatenate(done, axis=-1))


def capsule(x: Array, k: Array, *, V: int, **params: Any) -> Array:
    """One convolution for each pair of a row of the input's matrices and a column of the filter's."""
    return np.stack(
        [
            np.stack([sum(conv(x[:, :, :, u, j], k[:, :, j, v], **params) for j in range(V)) for v in range(V)], axis=3)
            for u in range(V)
        ],
        axis=3,
    )


def conv_bn_relu(x: Array, k: Array, bias: Array, scale: Array, offset: Array, **params: Any) -> Array:
    return np.asarray(np.maximum((conv(x, k, **params) + bias) * scale + offset, 0))


def conv_bn_relu_first(x: Array, k: Array, *rest: Array, **params: Any) -> Array:
    return first(conv_bn_relu(np.moveaxis(x, 1, -1), np.moveaxis(k, (0, 1), (-1, -2)), *rest, **params))


# --- products ------------------------------------------------------------------------------------------------


def matmul(a: str, b: str) -> Expected:
    def run(left: Array, right: Array, **_: Any) -> Array:
        left = np.swapaxes(left, -1, -2) if a == "t" else left
        return np.asarray(left @ (np.swapaxes(right, -1, -2) if b == "t" else right))

    return run


def transpose_batch_matmul(q: Array, k: Array, **_: Any) -> Array:
    return np.asarray(q.transpose(0, 2, 1, 3) @ k.transpose(0, 2, 3, 1))


def dense_relu(a: Array, b: Array, bias: Array, **_: Any) -> Array:
    return np.asarray(np.maximum(a @ b + bias, 0))


def dense_gelu(a: Array, b: Array, bias: Array, **_: Any) -> Array:
    x = a @ b + bias
    return np.asarray(x * special.ndtr(x))


# --- normalisations ------------------------------------------------------------------------------------------


def softmax(x: Array, **_: Any) -> Array:
    return np.asarray(special.softmax(x, axis=-1))


def log_softmax(x: Array, **_: Any) -> Array:
    return np.asarray(special.log_softmax(x, axis=-1))


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float, **_: Any) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * gamma + beta)


def rms_norm(x: Array, gamma: Array, eps: float, **_: Any) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * gamma)


def batch_norm(x: Array, gamma: Array, beta: Array, eps: float, **_: Any) -> Array:
    return np.asarray((x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + eps) * gamma + beta)


def norm(x: Array, **_: Any) -> Array:
    return np.asarray(np.linalg.norm(x, axis=(1, 2)))


# --- pooling, attention ----------------------------------------------------------------------------------------


def _windows(x: Array, R: int, S: int, P: int, fill: float, D: int = 1) -> Array:
    """[batch, *space, channel, taps]"""
    space = tuple(range(1, x.ndim - 1))
    padded = np.pad(x, [(0, 0), *[(P, P)] * len(space), (0, 0)], constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (D * (R - 1) + 1,) * len(space), axis=space)
    chosen = seen[:, *(slice(None, None, S),) * len(space), :, *(slice(None, None, D),) * len(space)]
    return np.asarray(chosen.reshape(*chosen.shape[: x.ndim], -1))


def max_pool(x: Array, *, R: int, S: int, P: int, D: int, **_: Any) -> Array:
    return np.asarray(_windows(x, R, S, P, -np.inf, D).max(-1))


def avg_pool(x: Array, *, R: int, S: int, P: int, COUNT_PAD: int, **_: Any) -> Array:
    return np.asarray(np.nanmean(_windows(x, R, S, P, 0 if COUNT_PAD else np.nan), axis=-1))


def global_avg_pool(x: Array, **_: Any) -> Array:
    return np.asarray(x.mean(tuple(range(1, x.ndim - 1))))


def of_first(expected: Expected) -> Expected:
    """What an operator of one image computes where its channels are first; results of two dimensions have no image."""

    def run(x: Array, *rest: Any, **params: Any) -> Array:
        y = expected(np.moveaxis(x, 1, -1), *rest, **params)
        return first(y) if y.ndim > 2 else np.asarray(y)

    return run


def attention(q: Array, k: Array, v: Array, **_: Any) -> Array:
    return np.asarray(softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])) @ v)


# --- element by element, moving data ---------------------------------------------------------------------------


def bias_gelu(x: Array, bias: Array, **_: Any) -> Array:
    return np.asarray((x + bias) * special.ndtr(x + bias))


def bias_gelu_tanh(x: Array, bias: Array, **_: Any) -> Array:
    z = x + bias
    return np.asarray(z * special.expit(np.sqrt(8 / np.pi) * (z + 0.044715 * z**3)))


def swiglu(x: Array, g: Array, **_: Any) -> Array:
    return np.asarray(x * special.expit(x) * g)


def scale_shift_add_relu(x: Array, scale: Array, shift: Array, r: Array, **_: Any) -> Array:
    return np.asarray(np.maximum(x * scale + shift[:, None], 0) + r)


def pad2d(x: Array, *, TOP: int, BOTTOM: int, LEFT: int, RIGHT: int, **_: Any) -> Array:
    return np.pad(x, [(0, 0), (TOP, BOTTOM), (LEFT, RIGHT), (0, 0)])


EXPECTED: dict[str, Expected] = {
    **{f"conv{n}": conv for n in ("1d_nlc", "2d_nhwc", "3d_ndhwc")},
    **{f"conv{n}": conv_first for n in ("1d_ncl", "2d_nchw", "3d_ncdhw")},
    "depthwise_conv2d_nhwc": depthwise,
    "depthwise_conv2d_nchw": depthwise_first,
    **{f"conv{n}": conv_transpose for n in ("1d_transpose_nlc", "2d_transpose_nhwc", "3d_transpose_ndhwc")},
    **{f"conv{n}": conv_transpose_first for n in ("1d_transpose_ncl", "2d_transpose_nchw", "3d_transpose_ncdhw")},
    "capsule_conv2d_nhwc": capsule,
    "conv2d_bn_relu_nhwc": conv_bn_relu,
    "conv2d_bn_relu_nchw": conv_bn_relu_first,
    **{f"{batch}matmul_{a}{b}": matmul(a, b) for batch in ("", "batch_") for a in "nt" for b in "nt"},
    "transpose_batch_matmul": transpose_batch_matmul,
    "dense_bias_relu": dense_relu,
    "dense_bias_gelu": dense_gelu,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "batch_norm_nhwc": batch_norm,
    "batch_norm_nchw": of_first(batch_norm),
    "norm": norm,
    **{f"max_pool{n}": max_pool for n in ("1d_nlc", "2d_nhwc", "3d_ndhwc")},
    **{f"avg_pool{n}": avg_pool for n in ("1d_nlc", "2d_nhwc", "3d_ndhwc")},
    **{f"global_avg_pool{n}": global_avg_pool for n in ("1d_nlc", "2d_nhwc", "3d_ndhwc")},
    "max_pool2d_nchw": of_first(max_pool),
    "avg_pool2d_nchw": of_first(avg_pool),
    "global_avg_pool2d_nchw": of_first(global_avg_pool),
    "attention": attention,
    "batch_attention": attention,
    "bias_gelu": bias_gelu,
    "bias_gelu_tanh": bias_gelu_tanh,
    "swiglu": swiglu,
    "scale_shift_add_relu": scale_shift_add_relu,
    "transpose": lambda x, **_: x.T,
    "nchw_to_nhwc": lambda x, **_: x.transpose(0, 2, 3, 1),
    "concat": lambda a, b, **_: np.concatenate([a, b], axis=1),
    "pad2d_nhwc": pad2d,
    "pad2d_nchw": of_first(pad2d),
    "box_blur": lambda x, *, R, **_: np.lib.stride_tricks.sliding_window_view(x, (R, R)).mean((2, 3)),
    "cumsum": lambda x, **_: np.cumsum(x, axis=1),
    "embedding": lambda ids, w, **_: w[ids],
    "gather_sum": lambda ids, w, **_: w[ids].sum(axis=1),
    "argmax": lambda x, **_: (x.max(axis=1), x.argmax(axis=1)),
}
