"""Small programs for the tests of primitives, with odd extents."""

DENSE_RELU = """
program dense_relu[N=11, M=9, K=7](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""

RELU_PAD_MATMUL = """
program relu_pad_matmul[N=4, K=11, M=3, L=8](A: f32[N, K], D: f32[K, M]) -> E: f32[N, M]:
    relu:   B[i, k] = max(A[i, k], 0)
    pad:    C[i, k] = B[i, k] if k < L else 0
    matmul: E[i, j] = sum[k](C[i, k] * D[k, j])
"""

CONV = """
program conv[H=5, C=2, O=3, R=3, P=1](X: f32[H, H, C], K: f32[R, R, C, O]) -> Y: f32[H, H, O]:
    Xp: f32[H + 2*P, H + 2*P, C]
    pad:  Xp[h, w, c] = X[h - P, w - P, c] if h >= P and h < H + P and w >= P and w < H + P else 0
    conv: Y[h, w, o] = sum[r < R, s < R, c](Xp[h + r, w + s, c] * K[r, s, c, o])
"""

STENCIL = """
program stencil[N=17](A: f32[N]) -> C: f32[N]:
    double: B[i] = A[i] * 2
    sum3:   C[i] = (B[i - 1] if i >= 1 else 0) + B[i] + (B[i + 1] if i < N - 1 else 0)
"""

SUMS_STENCIL = """
program sums_stencil[N=9, M=3, K=4](A: f32[N + 2, M, K]) -> C: f32[N, M]:
    sums: B[i, j] = sum[k](A[i, j, k])
    near: C[y, j] = B[y, j] + B[y + 1, j] * 2 + B[y + 2, j]
"""

ROWS = """
program rows[N=6, K=9](A: f32[N, K]) -> S: f32[N, K]:
    most:  M[i] = max[k](A[i, k])
    apart: E[i, k] = A[i, k] - M[i]
    total: T[i] = sum[k](E[i, k])
    out:   S[i, k] = E[i, k] + T[i]
"""

TWO = """
program two[N=6](A: f32[N]) -> C: f32[N]:
    first:  X[i] = A[i] + 1
    second: Y[i] = A[i] * 2
    both:   C[i] = X[i] + Y[i]
"""

TRANSPOSED = """
program transposed[N=5](A: f32[N, N]) -> C: f32[N, N]:
    plus:  X[i, j] = A[i, j] + 1
    twice: Y[i, j] = X[j, i] * 2
    three: Z[i, j] = X[i, j] * 3
    all:   C[i, j] = X[i, j] + Y[i, j] - Z[j, i]
"""
