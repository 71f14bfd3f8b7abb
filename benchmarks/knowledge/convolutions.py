"""Convolutions of windows of 3 as graphs have them: padding, a sum, a bias, and what follows it.

Images are small: of these graphs leave out what of a window is padding, which asks a condition of rows and columns.
Of a sum alone it is not known where what follows it is computed, and a guess tries each place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.knowledge.from_text import Written, at_sizes

_LAYER = (
    "[H=8, CI=16, CO=16](A: f32[1, H, H, CI], const B: f32[3, 3, CI, CO], const C: f32[CO]) -> Y: f32[1, H, H, CO]:\n"
    "    P: f32[1, H + 2, H + 2, CI]\n    T: f32[1, H, H, CO]\n"
    "    P[n, h, w, c] = A[n, h - 1, w - 1, c] if h >= 1 and h < H + 1 and w >= 1 and w < H + 1 else 0\n"
    "    T[n, h, w, o] = sum[r < 3, s < 3, c < CI if h + r >= 1 and h + r < H + 1 and (w + s >= 1 and w + s < H + 1)]"
    "(P[n, h + r, w + s, c] * B[r, s, c, o])\n"
    "    Y[n, h, w, o] = {result}\n"
)
_BIASED = "T[n, h, w, o] + C[o]"
_RELU = f"max({_BIASED}, 0)"
_SILU = f"({_BIASED}) * sigmoid({_BIASED})"
_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "conv_relu": _LAYER.format(result=_RELU),
        "conv_silu": _LAYER.format(result=_SILU),
    }
)
_SIZES: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "conv_relu": (
            (7, 384, 384), (7, 640, 640), (8, 512, 512), (8, 256, 256), (8, 128, 128), (10, 320, 320), (14, 192, 192),
            (14, 320, 320), (15, 128, 128), (16, 256, 256), (16, 384, 384),
        ),
        "conv_silu": ((8, 192, 192), (8, 384, 192), (10, 256, 256), (15, 128, 128), (16, 256, 128)),
    }
)  # fmt: skip


def convolutions() -> Iterator[tuple[Written, ...]]:
    """The sizes of each layer."""
    return at_sizes(_TEXTS, _SIZES)
