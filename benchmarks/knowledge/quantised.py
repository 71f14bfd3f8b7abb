"""Layers of networks in bytes, as graphs have them: u8 times i8, summed in i32, and a total rounded to a byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.knowledge.from_text import Written, at_sizes

_ROUNDED = "u8(min(max(rint(f32({total}) * C[o] + D[o]), 0.0), 255.0))"
_INSIDE = "h >= R // 2 and h < H + R // 2 and w >= R // 2 and w < H + R // 2"
_OUT = "(H - 1) // S + 1"
_CONVOLVED = """:
{before}    P: u8[1, H + R - 1, H + R - 1, CI]
    T: i32[1, {out}, {out}, CO]
{sums}    P[n, h, w, c] = A[n, h - R // 2, w - R // 2, c] if {inside} else {zero}
    T[n, h, w, o] = sum[r < R, s < R, c < CI](i32(P[n, S * h + r, S * w + s, c]) * i32(B[r, s, c, o]))
    Y[n, h, w, o] = {result}
"""
_SUMS_OF_WEIGHTS = "    Z[o] = sum[k < K](i32(B[k, o]) * i32(E[]))\n"
_TOTALS = "    T[i, o] = sum[k < K](i32(A[i, k]) * i32(B[k, o]))\n"
_TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "quantised_conv": (
            "[H=8, CI=4, CO=16, R=3, S=1](A: u8[1, H, H, CI], const B: i8[R, R, CI, CO], const C: f32[CO], "
            f"const D: f32[CO]) -> Y: u8[1, {_OUT}, {_OUT}, CO]"
            + _CONVOLVED.format(
                before="", sums="", out=_OUT, inside=_INSIDE, zero=0, result=_ROUNDED.format(total="T[n, h, w, o]")
            )
        ),
        "quantised_conv_zero_point": (
            "[H=8, CI=3, CO=16, R=3, S=2](A: u8[1, H, H, CI], const B: i8[R, R, CI, CO], const C: f32[CO], "
            f"const D: f32[CO], const E: u8[]) -> Y: u8[1, {_OUT}, {_OUT}, CO]"
            + _CONVOLVED.format(
                before="    Z: i32[CO]\n",
                sums="    Z[o] = sum[r < R, s < R, c < CI](i32(B[r, s, c, o]) * i32(E[]))\n",
                out=_OUT,
                inside=_INSIDE,
                zero="E[]",
                result=_ROUNDED.format(total="T[n, h, w, o] - Z[o]"),
            )
        ),
        "quantised_depthwise": (
            "[H=8, CI=16, R=3, S=1](A: u8[1, H, H, CI], const B: i8[R, R, CI], const C: f32[CI], "
            f"const D: f32[CI]) -> Y: u8[1, {_OUT}, {_OUT}, CI]:\n"
            f"    P: u8[1, H + R - 1, H + R - 1, CI]\n    T: i32[1, {_OUT}, {_OUT}, CI]\n"
            f"    P[n, h, w, o] = A[n, h - R // 2, w - R // 2, o] if {_INSIDE} else 0\n"
            "    T[n, h, w, o] = sum[r < R, s < R](i32(P[n, S * h + r, S * w + s, o]) * i32(B[r, s, o]))\n"
            f"    Y[n, h, w, o] = {_ROUNDED.format(total='T[n, h, w, o]')}\n"
        ),
        "quantised_strided": (
            "[H=8, CI=16, CO=16](A: u8[1, 2 * H, 2 * H, CI], const B: i8[CI, CO], const C: f32[CO], const D: f32[CO]) "
            "-> Y: u8[1, H, H, CO]:\n    T: i32[1, H, H, CO]\n"
            "    T[n, h, w, o] = sum[c < CI](i32(A[n, 2 * h, 2 * w, c]) * i32(B[c, o]))\n"
            f"    Y[n, h, w, o] = {_ROUNDED.format(total='T[n, h, w, o]')}\n"
        ),
        "quantised_dense": (
            "[M=8, O=16, K=16](A: u8[M, K], const B: i8[K, O], const C: f32[O], const D: f32[O]) -> Y: u8[M, O]:\n"
            f"    T: i32[M, O]\n{_TOTALS}    Y[i, o] = {_ROUNDED.format(total='T[i, o]')}\n"
        ),
        "quantised_dense_zero_point": (
            "[M=8, O=16, K=16](A: u8[M, K], const B: i8[K, O], const C: f32[O], const D: f32[O], const E: u8[]) "
            f"-> Y: u8[M, O]:\n    Z: i32[O]\n    T: i32[M, O]\n{_SUMS_OF_WEIGHTS}{_TOTALS}"
            f"    Y[i, o] = {_ROUNDED.format(total='T[i, o] - Z[o]')}\n"
        ),
        "quantised_dense_dynamic": (
            "[M=8, O=16, K=16](A: u8[M, K], const B: i8[K, O], E: u8[], F: f32[], const D: f32[O]) "
            "-> Y: f32[M, O]:\n    Z: i32[O]\n    T: i32[M, O]\n    Z[o] = sum[k < K](i32(B[k, o]))\n"
            f"{_TOTALS}    Y[i, o] = f32(T[i, o] - Z[o] * i32(E[])) * F[] + D[o]\n"
        ),
        "quantised_products": (
            "[N=2, M=8, O=16, K=16](A: u8[1, N, M, K], B: i8[1, N, K, O], C: f32[]) -> Y: u8[1, N, M, O]:\n"
            "    T: i32[1, N, M, O]\n"
            "    T[b, n, i, o] = sum[k < K](i32(A[b, n, i, k]) * i32(B[b, n, k, o]))\n"
            "    Y[b, n, i, o] = u8(min(max(rint(f32(T[b, n, i, o]) * C[]), 0.0), 255.0))\n"
        ),
    }
)
_SIZES: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "quantised_conv": (
            (80, 32, 32, 3, 1), (40, 64, 64, 3, 1), (20, 128, 128, 3, 1), (10, 256, 256, 3, 1), (48, 48, 48, 3, 1),
            (80, 32, 64, 3, 2), (40, 64, 128, 3, 2), (20, 128, 256, 3, 2), (35, 48, 64, 5, 1), (8, 448, 384, 3, 1),
            (12, 256, 512, 3, 2), (8, 512, 512, 3, 1), (48, 96, 96, 3, 1), (24, 160, 160, 3, 1),
            (48, 64, 64, 3, 1), (24, 128, 128, 3, 1), (12, 256, 256, 3, 1), (48, 64, 128, 3, 2), (24, 128, 256, 3, 2),
        ),
        "quantised_conv_zero_point": ((192, 3, 64, 7, 2), (192, 3, 32, 3, 2), (320, 3, 16, 3, 2), (160, 3, 64, 3, 1)),
        "quantised_depthwise": (
            (96, 32, 3, 1), (96, 64, 3, 2), (48, 128, 3, 1), (48, 128, 3, 2), (24, 240, 3, 1), (24, 240, 3, 2),
            (12, 480, 3, 1), (12, 480, 3, 2), (6, 768, 3, 1), (40, 72, 5, 1), (20, 240, 5, 2), (10, 672, 5, 1),
        ),
        "quantised_strided": (
            (20, 128, 256), (40, 64, 128), (10, 256, 512), (24, 64, 128), (12, 128, 256), (6, 256, 512),
        ),
        "quantised_dense": (
            (9216, 32, 16), (2304, 128, 24), (576, 192, 40), (576, 32, 128), (144, 80, 240), (1600, 64, 128),
            (400, 256, 128), (36, 160, 768), (100, 512, 512), (1, 1000, 2048), (1, 1000, 1024),
            (2304, 24, 96), (576, 40, 160), (576, 40, 240), (144, 80, 480), (144, 112, 640), (36, 192, 960),
            (36, 320, 1024), (2304, 64, 64), (576, 512, 128), (144, 256, 1024), (36, 512, 2048), (100, 768, 768),
            (9216, 16, 32), (144, 64, 240), (144, 96, 400), (144, 64, 400), (576, 32, 144), (2304, 256, 64),
        ),
        "quantised_dense_zero_point": (
            (9216, 64, 16), (2304, 144, 32), (576, 240, 40), (144, 480, 80), (36, 768, 128), (256, 1536, 384),
            (256, 384, 1536), (50, 768, 768),
            (144, 560, 112), (36, 1280, 320), (256, 576, 192), (256, 192, 768), (256, 768, 192),
        ),
        "quantised_dense_dynamic": (
            (64, 512, 512), (64, 2048, 512), (64, 512, 2048), (256, 1024, 1024), (16, 768, 768), (8, 1024, 1024),
            (1, 1024, 1024), (4, 512, 2048), (100, 768, 768), (100, 3072, 768), (100, 768, 3072),
        ),
        "quantised_products": ((6, 128, 128, 64), (6, 128, 64, 128), (4, 256, 256, 32)),
    }
)  # fmt: skip


def quantised() -> Iterator[tuple[Written, ...]]:
    """The sizes of each layer."""
    return at_sizes(_TEXTS, _SIZES)
