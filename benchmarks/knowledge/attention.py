"""Products of attention whose heads lie side by side in rows, as layers before it make them: scores, and their mix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.knowledge.from_text import Written, at_sizes

_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "scores": (
            "[L=16, H=2, D=16](A: f32[1, L, H, D], B: f32[1, L, H, D]) -> Y: f32[1, H, L, L]:\n"
            "    T: f32[1, H, L, L]\n"
            "    T[n, h, i, j] = sum[k < D](A[n, i, h, k] * B[n, j, h, k])\n"
            "    Y[n, h, i, j] = T[n, h, i, j] * 0.125\n"
        ),
        "mixed": (
            "[L=16, H=2, D=16](A: f32[1, H, L, L], B: f32[1, L, H, D]) -> Y: f32[1, L, H, D]:\n"
            "    Y[n, i, h, d] = sum[j < L](A[n, h, i, j] * B[n, j, h, d])\n"
        ),
    }
)
# Places, heads, and elements of a head: of transformers of images and of text.
_SIZES = ((50, 12, 64), (197, 3, 64), (197, 12, 64), (257, 16, 64), (384, 12, 64), (577, 12, 64))


def attention() -> Iterator[tuple[Written, ...]]:
    """The sizes of each product."""
    return at_sizes(_TEXTS, dict.fromkeys(_TEXTS, _SIZES))
