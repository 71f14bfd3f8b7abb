"""Small programs that show what schedules do to programs; `{0}` is an element type."""

from __future__ import annotations

from collections.abc import Mapping

CHAIN = """
program chain[N=7, M=13](A: {0}[N, M], B: {0}[M]) -> D: {0}[N, M]:
    add:   C[i, j] = A[i, j] + B[j]
    twice: E[i, j] = C[i, j] * 2
    most:  D[i, j] = max(E[i, j], C[i, j])
"""

MATMUL = """
program matmul[N=7, M=13, K=5](A: {0}[N, K], B: {0}[K, M]) -> D: {0}[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""

PADDED = """
program padded[N=7, M=5, L=4](A: {0}[N, M]) -> E: {0}[N]:
    pad:   P[i, k] = A[i, k] if k < L and i < N - 1 else 0
    total: E[i] = sum[k](P[i, k])
"""

CONV = """
program conv[H=7, W=5, R=3](X: {0}[H, W], K: {0}[R, R]) -> Y: {0}[H, W]:
    Xp: {0}[H + 2, W + 2]
    pad:  Xp[h, w] = X[h - 1, w - 1] if h >= 1 and h <= H and w >= 1 and w <= W else 0
    conv: Y[h, w] = sum[r, s](Xp[h + r, w + s] * K[r, s])
"""

ROWS = """
program rows[N=7, K=13](A: {0}[N, K]) -> (S: {0}[N, K], M: {0}[N]):
    most:  M[i] = max[k](A[i, k])
    apart: E[i, k] = A[i, k] - M[i]
    total: T[i] = sum[k](E[i, k])
    out:   S[i, k] = E[i, k] + T[i]
"""

EXPONENTIALS = """
program exponentials[N=3, K=13](A: f32[N, K]) -> (M: f32[N], S: f32[N]):
    most:  M[i] = max[k](A[i, k])
    total: S[i] = sum[l](exp(A[i, l] - M[i]))
"""

RUNNING = """
program running[N=7, M=5](A: {0}[N, M]) -> D: {0}[N, M]:
    before: B[i, j] = A[i, j] * 2
    run:    C[i < N, j < M] = sum[k < N if k <= i](B[k, j])
    after:  D[i, j] = C[i, j] + B[i, j]
"""

WHOLE = """
program whole[N=13](A: {0}[N], B: {0}[N]) -> S: {0}[1]:
    dot: S[o < 1] = sum[i](A[i] * B[i])
"""

STRIDED = """
program strided[N=7](A: {0}[2*N + 1]) -> C: {0}[N]:
    twice: B[i] = A[i] * 2
    sum3:  C[i] = sum[r < 3](B[2*i + r])
"""

BLUR = """
program blur[H=7, W=5](X: {0}[H + 2, W + 2]) -> Y: {0}[H, W]:
    across: B[y < H + 2, x < W] = X[y, x] + X[y, x + 1] + X[y, x + 2]
    down:   Y[y, x] = sum[r < 3](B[y + r, x])
"""

DEPTHS = """
program depths[N=6](X: {0}[N + 4]) -> Y: {0}[N]:
    first:  B[i < N + 2] = X[i] + X[i + 1] + X[i + 2]
    second: C[i < N + 1] = B[i] * 2 + B[i + 1]
    third:  Y[i] = C[i] + C[i + 1]
"""

BYTES = """
program bytes[N=3, M=16, K=8](A: u8[N, K], B: i8[M, K]) -> C: i32[N, M]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[j, k]))
"""

BIAS = """
program bias[N=7, M=13, K=5](A: {0}[N, K], B: {0}[K, M], b: {0}[M]) -> E: {0}[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    add:   D[i, j] = b[j] + C[i, j]
    relu:  E[i, j] = max(D[i, j], 0)
"""

LARGEST = """
program largest[N=7, K=13](A: {0}[N, K], B: {0}[K]) -> (V: {0}[N], P: i64[N], Q: i64[N]):
    add:  C[i, k] = A[i, k] + B[k]
    best: V[i], P[i] = argmax[k](C[i, k])
    next: Q[i] = P[i] * 2 + 1
"""

LEAST = """
program least[N=7, K=13](A: {0}[K, N]) -> (V: {0}[N], P: i32[N]):
    V[i], P[i] = argmin[k](A[k, i])
"""

GATHER = """
program gather[N=7, M=5, V=8](T: {0}[V, M], I: i32[N]) -> (C: {0}[N, M], S: {0}[N]):
    rows: R[i, j] = T[I[i], j]
    twice: C[i, j] = R[i, j] * 2
    sums: S[i] = sum[j](R[i, j])
"""

BUTTERFLY = """
program butterfly[N=7](X: {0}[N, 8]) -> Y: {0}[N, 8]:
    pairs: A[n, i] = X[n, i ^ 1] - X[n, i] if i & 1 == 1 else X[n, i] + X[n, i ^ 1]
    fours: B[n, i < 8] = A[n, i ^ 2] - A[n, i] if i >> 1 & 1 == 1 else A[n, i] + A[n, i ^ 2]
    order: Y[n, i] = B[n, (i & 1) << 2 | i & 2 | i >> 2]
"""

NIBBLES = """
program nibbles[N=7, M=5](Q: u8[M, N], X: i32[2*N]) -> Y: i32[M]:
    unpack: W[m, k < 2*N] = i32(Q[m, k >> 1] >> 4 * (k & 1) & 15)
    product: Y[m] = sum[k](W[m, k] * X[k])
"""

SIZES: Mapping[str, tuple[str, ...]] = {
    CHAIN: ("N", "M"),
    EXPONENTIALS: ("N", "K"),
    MATMUL: ("N", "M", "K"),
    PADDED: ("N",),
    CONV: ("H", "W"),
    ROWS: ("N", "K"),
    RUNNING: ("N", "M"),
    WHOLE: ("N",),
    STRIDED: ("N",),
    BLUR: ("H", "W"),
    DEPTHS: ("N",),
    BYTES: ("N",),
    BIAS: ("N", "M", "K"),
    LARGEST: ("N", "K"),
    LEAST: ("N", "K"),
    GATHER: ("N", "M", "V"),
    BUTTERFLY: ("N",),
    NIBBLES: ("N", "M"),
}
