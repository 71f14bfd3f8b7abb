"""Layers of networks in bf16, as graphs have them: products of halves summed in f32, and a total rounded to a half."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.knowledge.from_text import Written, at_sizes

_OUT = "(H - 1) // S + 1"
_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "half_conv": (
            "[H=8, CI=4, CO=16, R=3, S=1](A: bf16[1, H, H, CI], const B: bf16[R, R, CI, CO], const C: f32[CO]) "
            f"-> Y: bf16[1, {_OUT}, {_OUT}, CO]:\n"
            f"    P: bf16[1, H + R - 1, H + R - 1, CI]\n    T: f32[1, {_OUT}, {_OUT}, CO]\n"
            "    P[n, h, w, c] = A[n, h - R // 2, w - R // 2, c] "
            "if h >= R // 2 and h < H + R // 2 and w >= R // 2 and w < H + R // 2 else 0\n"
            "    T[n, h, w, o] = sum[r < R, s < R, c < CI](f32(P[n, S * h + r, S * w + s, c]) * f32(B[r, s, c, o]))\n"
            "    Y[n, h, w, o] = bf16(max(T[n, h, w, o] + C[o], 0.0))\n"
        ),
        "half_first": (
            "[H=8, CI=3, CO=16, R=3, S=2](A: f32[1, CI, H, H], const B: bf16[R, R, CI, CO], const C: f32[CO]) "
            f"-> Y: bf16[1, {_OUT}, {_OUT}, CO]:\n"
            f"    P: bf16[1, H + R - 1, H + R - 1, CI]\n    T: f32[1, {_OUT}, {_OUT}, CO]\n"
            "    P[n, h, w, c] = bf16(A[n, c, h - R // 2, w - R // 2] "
            "if h >= R // 2 and h < H + R // 2 and w >= R // 2 and w < H + R // 2 else 0)\n"
            "    T[n, h, w, o] = sum[r < R, s < R, c < CI](f32(P[n, S * h + r, S * w + s, c]) * f32(B[r, s, c, o]))\n"
            "    Y[n, h, w, o] = bf16(max(T[n, h, w, o] + C[o], 0.0))\n"
        ),
        "half_strided": (
            "[H=8, CI=16, CO=16](A: bf16[1, 2 * H, 2 * H, CI], const B: bf16[CI, CO], const C: f32[CO]) "
            "-> Y: bf16[1, H, H, CO]:\n    T: f32[1, H, H, CO]\n"
            "    T[n, h, w, o] = sum[c < CI](f32(A[n, 2 * h, 2 * w, c]) * f32(B[c, o]))\n"
            "    Y[n, h, w, o] = bf16(T[n, h, w, o] + C[o])\n"
        ),
        "half_dense": (
            "[M=8, O=16, K=16](A: bf16[M, K], const B: bf16[K, O], const C: f32[O]) -> Y: bf16[M, O]:\n"
            "    T: f32[M, O]\n    T[i, o] = sum[k < K](f32(A[i, k]) * f32(B[k, o]))\n"
            "    Y[i, o] = bf16(max(T[i, o] + C[o], 0.0))\n"
        ),
        "half_dense_added": (
            "[M=8, O=16, K=16](A: bf16[M, K], const B: bf16[K, O], const C: f32[O], D: f32[M, O]) -> Y: f32[M, O]:\n"
            "    T: f32[M, O]\n    T[i, o] = sum[k < K](f32(A[i, k]) * f32(B[k, o]))\n"
            "    Y[i, o] = T[i, o] + C[o] + D[i, o]\n"
        ),
        "half_scores": (
            "[N=2, M=8, O=16, K=16](A: bf16[N, M, K], B: bf16[N, K, O]) -> Y: f32[N, M, O]:\n"
            "    Y[n, i, o] = sum[k < K](f32(A[n, i, k]) * f32(B[n, k, o]))\n"
        ),
        "half_values": (
            "[N=2, M=8, O=16, K=16](A: bf16[1, N, M, K], B: bf16[K, 3, N, O]) -> Y: bf16[1, M, N, O]:\n"
            "    T: f32[1, M, N, O]\n"
            "    T[b, i, n, o] = sum[k < K](f32(A[b, n, i, k]) * f32(B[k, 2, n, o]))\n"
            "    Y[b, i, n, o] = bf16(T[b, i, n, o])\n"
        ),
        "half_patches": (
            "[H=4, R=8, CO=16](A: f32[1, 3, H * R, H * R], const B: bf16[3, R, R, CO], const C: f32[CO]) "
            "-> Y: bf16[1, H, H, CO]:\n    P: bf16[1, 3, H * R, H * R]\n    T: f32[1, H, H, CO]\n"
            "    P[n, c, h, w] = bf16(A[n, c, h, w])\n"
            "    T[n, h, w, o] = sum[c < 3, r < R, s < R](f32(P[n, c, R * h + r, R * w + s]) * f32(B[c, r, s, o]))\n"
            "    Y[n, h, w, o] = bf16(T[n, h, w, o] + C[o])\n"
        ),
    }
)
_SIZES: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "half_conv": (
            (80, 32, 32, 3, 1), (48, 64, 64, 3, 1), (24, 128, 128, 3, 1), (12, 256, 256, 3, 1), (8, 512, 512, 3, 1),
            (48, 48, 48, 3, 1), (80, 32, 64, 3, 2), (48, 64, 128, 3, 2), (24, 128, 256, 3, 2), (12, 256, 512, 3, 2),
            (35, 48, 64, 5, 1), (8, 448, 384, 3, 1), (96, 64, 64, 3, 1), (20, 192, 96, 3, 1),
        ),
        "half_first": ((192, 3, 64, 7, 2), (192, 3, 32, 3, 2), (320, 3, 16, 3, 2), (160, 3, 64, 3, 1)),
        "half_strided": (
            (24, 64, 128), (12, 128, 256), (6, 256, 512), (24, 256, 512), (12, 512, 1024), (6, 1024, 2048),
        ),
        "half_dense": (
            (9216, 16, 32), (9216, 64, 16), (2304, 24, 96), (2304, 144, 32), (2304, 64, 256), (2304, 256, 64),
            (576, 40, 160), (576, 240, 40), (576, 128, 512), (576, 512, 128), (144, 80, 320), (144, 400, 80),
            (144, 112, 560), (144, 640, 112), (144, 256, 1024), (144, 1024, 256), (36, 160, 768), (36, 960, 192),
            (36, 320, 1024), (36, 1280, 320), (36, 512, 2048), (36, 2048, 512), (256, 576, 192), (256, 768, 192),
            (256, 1536, 384), (256, 384, 1536), (100, 768, 768), (100, 3072, 768), (100, 768, 3072), (16, 768, 768),
            (1, 1000, 1024), (1, 1000, 512),
        ),
        "half_dense_added": (
            (256, 192, 192), (256, 192, 768), (256, 384, 1536), (100, 768, 768), (100, 768, 3072), (400, 512, 512),
        ),
        "half_scores": ((4, 144, 144, 64), (12, 100, 100, 64), (8, 256, 256, 64), (16, 50, 50, 32)),
        "half_values": ((4, 144, 64, 144), (12, 100, 64, 100), (8, 256, 64, 256)),
        "half_patches": ((12, 16, 192), (12, 16, 384), (7, 32, 768)),
    }
)  # fmt: skip


def half_layers() -> Iterator[tuple[Written, ...]]:
    """The sizes of each layer."""
    return at_sizes(_TEXTS, _SIZES)
