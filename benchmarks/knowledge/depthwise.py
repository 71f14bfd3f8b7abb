"""Depthwise layers as graphs have them: padding, a sum for each channel, a bias, and what follows it.

Of small images graphs leave out the rows of a window that are padding, which asks a condition of each: `..._inside`.
What is found for a sum alone is no guide to these, as what follows is computed for the same tile in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.knowledge.from_text import Written, at_sizes

_OUT = "(H - 1) // S + 1"
_PADDED = "h >= R // 2 and h < H + R // 2 and w >= R // 2 and w < H + R // 2"
_LAYER = (
    "[H=8, CI=16, R=3, S=1](A: f32[1, H, H, CI], const B: f32[R, R, CI], const C: f32[CI]) "
    f"-> Y: f32[1, {_OUT}, {_OUT}, CI]:\n"
    f"    P: f32[1, H + R - 1, H + R - 1, CI]\n    T: f32[1, {_OUT}, {_OUT}, CI]\n"
    f"    P[n, h, w, c] = A[n, h - R // 2, w - R // 2, c] if {_PADDED} else 0\n"
    "    T[n, h, w, c] = sum[r < R, s < R{inside}](P[n, S * h + r, S * w + s, c] * B[r, s, c])\n"
    "    Y[n, h, w, c] = {result}\n"
)
_ROWS_INSIDE = " if S * h + r >= R // 2 and S * h + r < H + R // 2"
_BIASED = "T[n, h, w, c] + C[c]"
_RELU = f"max({_BIASED}, 0)"
_SILU = f"({_BIASED}) * sigmoid({_BIASED})"
_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "depthwise_relu": _LAYER.format(inside="", result=_RELU),
        "depthwise_relu_inside": _LAYER.format(inside=_ROWS_INSIDE, result=_RELU),
        "depthwise_silu": _LAYER.format(inside="", result=_SILU),
        "depthwise_silu_inside": _LAYER.format(inside=_ROWS_INSIDE, result=_SILU),
    }
)
_SIZES: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "depthwise_relu": (
            (112, 24, 3, 1), (56, 80, 3, 1), (30, 192, 3, 1), (60, 72, 5, 2), (112, 64, 3, 2), (30, 144, 3, 2),
            (16, 240, 3, 2),
        ),
        "depthwise_relu_inside": (
            (15, 576, 3, 1), (15, 200, 3, 1), (30, 96, 5, 1), (8, 960, 5, 1), (8, 960, 3, 1), (15, 576, 3, 2),
        ),
        "depthwise_silu": (
            (120, 32, 3, 1), (120, 96, 3, 2), (60, 144, 3, 1), (60, 144, 5, 2), (30, 240, 3, 2),
        ),
        "depthwise_silu_inside": (
            (15, 480, 5, 1), (16, 672, 5, 1), (8, 1152, 5, 1), (28, 192, 5, 1), (16, 480, 3, 1), (16, 672, 5, 2),
            (22, 240, 5, 1),
        ),
    }
)  # fmt: skip


def depthwise() -> Iterator[tuple[Written, ...]]:
    """The sizes of each layer."""
    return at_sizes(_TEXTS, _SIZES)
