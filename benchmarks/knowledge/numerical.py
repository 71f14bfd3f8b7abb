"""What numerical programs compute beside layers: distances, filters, stencils, column sums, products of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.knowledge.from_text import Written, at_sizes

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "column_sums": "[N=8, M=8](A: f32[N, M]) -> Y: f32[M]:\n    Y[j] = sum[i](A[i, j])",
        "column_maxima": "[N=8, M=8](A: f32[N, M]) -> Y: f32[M]:\n    Y[j] = max[i](A[i, j])",
        "matrix_vector": "[N=8, M=8](A: f32[N, M], X: f32[M]) -> Y: f32[N]:\n    Y[i] = sum[j](A[i, j] * X[j])",
        "vector_matrix": "[N=8, M=8](A: f32[N, M], X: f32[N]) -> Y: f32[M]:\n    Y[j] = sum[i](A[i, j] * X[i])",
        "gram_of_columns": "[N=8, M=8](A: f32[N, M]) -> Y: f32[M, M]:\n    Y[i, j] = sum[k](A[k, i] * A[k, j])",
        "gram_of_rows": "[N=8, M=8](A: f32[N, M]) -> Y: f32[N, N]:\n    Y[i, j] = sum[k](A[i, k] * A[j, k])",
        "squared_distances": (
            "[N=8, M=8, K=3](A: f32[N, K], B: f32[M, K]) -> Y: f32[N, M]:\n"
            "    Y[i, j] = sum[k]((A[i, k] - B[j, k]) * (A[i, k] - B[j, k]))"
        ),
        "absolute_distances": (
            "[N=8, M=8, K=3](A: f32[N, K], B: f32[M, K]) -> Y: f32[N, M]:\n    Y[i, j] = sum[k](abs(A[i, k] - B[j, k]))"
        ),
        "filter": "[N=8, K=3](X: f32[N + K - 1], W: f32[K]) -> Y: f32[N]:\n    Y[i] = sum[k](X[i + k] * W[k])",
        "filters": (
            "[C=2, N=8, K=3](X: f32[C, N + K - 1], W: f32[K]) -> Y: f32[C, N]:\n"
            "    Y[c, i] = sum[k](X[c, i + k] * W[k])"
        ),
        "correlation": (
            "[N=8, M=8, K=3](X: f32[N + K - 1, M + K - 1], W: f32[K, K]) -> Y: f32[N, M]:\n"
            "    Y[i, j] = sum[a, b](X[i + a, j + b] * W[a, b])"
        ),
        "sparse_rows": (
            "[N=8, K=3](A: f32[N, K], I: i32[N, K], X: f32[N]) -> Y: f32[N]:\n    Y[i] = sum[k](A[i, k] * X[I[i, k]])"
        ),
        "stencil": (
            "[N=8, K=3](X: f32[N + K - 1, N + K - 1, N + K - 1], W: f32[K, K, K]) -> Y: f32[N, N, N]:\n"
            "    Y[i, j, k] = sum[a, b, c](X[i + a, j + b, k + c] * W[a, b, c])"
        ),
    }
)
_SIZES: Mapping[str, tuple[tuple[int, ...], ...]] = MappingProxyType(
    {
        "column_sums": ((128, 256), (1000, 64), (4096, 1024), (50000, 32), (300, 5000)),
        "column_maxima": ((256, 128), (5000, 100), (2000, 2000)),
        "matrix_vector": ((100, 100), (512, 512), (1000, 4096), (8192, 256), (2000, 2000)),
        "vector_matrix": ((100, 100), (512, 512), (4096, 1000), (256, 8192), (2000, 2000)),
        "gram_of_columns": ((1000, 32), (20000, 64), (512, 256), (3000, 128), (10000, 16), (400, 700)),
        "gram_of_rows": ((128, 64), (400, 300), (1000, 128), (600, 64), (256, 1000)),
        "squared_distances": ((128, 128, 16), (1000, 64, 32), (300, 300, 128), (2000, 100, 3), (1024, 1024, 8)),
        "absolute_distances": ((128, 128, 16), (500, 500, 40), (2000, 50, 100)),
        "filter": ((4096, 32), (100000, 64), (16000, 401), (48000, 15), (30000, 128), (200000, 32), (60000, 200)),
        "filters": ((16, 8192, 25), (64, 1000, 101)),
        "correlation": ((128, 128, 5), (512, 512, 7), (480, 640, 9), (200, 200, 21), (1000, 1000, 3)),
        "sparse_rows": ((10000, 8), (40000, 24), (2000, 64)),
        "stencil": ((32, 3), (64, 3), (128, 3), (48, 5), (80, 3), (200, 3)),
    }
)


def numerical() -> Iterator[tuple[Written, ...]]:
    """The sizes of each program."""
    return at_sizes(TEXTS, _SIZES)
