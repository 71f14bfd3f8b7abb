"""Layer normalisations as graphs have them: a sum of each row, one of its squared differences, and what is scaled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from benchmarks.knowledge.from_text import Written

_TEXT = (
    "[M=8, N=16](A: f32[M, N], const B: f32[N], const C: f32[N]) -> Y: f32[M, N]:\n"
    "    S: f32[M, 1]\n    U: f32[M, 1]\n    Q: f32[M, 1]\n    R: f32[M, 1]\n"
    "    S[i, u] = sum[k < N](A[i, k])\n"
    "    U[i, u] = S[i, u] * 0.001\n"
    "    Q[i, u] = sum[k < N]((A[i, k] - U[i, u]) * (A[i, k] - U[i, u]))\n"
    "    R[i, u] = 1.0 / sqrt(Q[i, u] * 0.001 + 0.000001)\n"
    "    Y[i, j] = (A[i, j] - U[i, 0]) * R[i, 0] * B[j] + C[j]\n"
)
_ROWS, _COLUMNS = (16, 64, 256, 1024, 4096), (128, 256, 512, 1024)


def row_norms() -> Iterator[tuple[Written, ...]]:
    """The sizes."""
    yield tuple(Written("row_norm", _TEXT, size) for size in product(_ROWS, _COLUMNS))
