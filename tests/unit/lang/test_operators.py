"""The language says the usual operators without a workaround."""

from __future__ import annotations

import pytest

from metasched.ir.validate import validate
from metasched.lang import parse_program

PROGRAMS = [
    """program conv1d[N=2, L=32, CI=4, CO=8, R=5, S=2, D=3](X: f32[N, L, CI], const K: f32[R, CI, CO]
            ) -> Y: f32[N, O, CO]:
    let O = (L - D*(R - 1) - 1) // S + 1
    Y[n, l, o] = sum[r, c](X[n, S*l + D*r, c] * K[r, c, o])
""",
    """program depthwise[H=14, C=8, R=3](X: f32[H, H, C], const K: f32[R, R, C]) -> Y: f32[H - R + 1, H - R + 1, C]:
    Y[h, w, c] = sum[r, s](X[h + r, w + s, c] * K[r, s, c])
""",
    """program grouped[H=8, G=4, CI=16, CO=8, R=3](X: f32[H, H, CI], const K: f32[R, R, CI // G, CO]
            ) -> Y: f32[O, O, CO]:
    let O = H - R + 1
    Y[h, w, o] = sum[r, s, c](X[h + r, w + s, o // (CO // G) * (CI // G) + c] * K[r, s, c, o])
""",
    """program transposed[H=7, C=4, O=3, R=4, S=2, P=1](X: f32[H, H, C], const K: f32[R, R, C, O]) -> Y: f32[M, M, O]:
    let M = (H - 1)*S + R - 2*P
    Y[h, w, o] = sum[r, s, c](
        X[(h + P - r) // S, (w + P - s) // S, c] * K[r, s, c, o]
        if (h + P - r) % S == 0 and h + P >= r and h + P - r < H*S
        and (w + P - s) % S == 0 and w + P >= s and w + P - s < H*S else 0)
""",
    """program capsule[H=6, C=4, O=4, R=3, M=2](X: f32[H, H, M, M, C], K: f32[R, R, M, M, C, O]
            ) -> Y: f32[4, 4, M, M, O]:
    Y[h, w, i, j, o] = sum[r, s, k, c](X[h + r, w + s, i, k, c] * K[r, s, k, j, c, o])
""",
    """program batched[B=3, N=5, M=7, K=9](X: f32[B, N, K], Y: f32[B, M, K]) -> Z: f32[B, N, M]:
    Z[b, i, j] = sum[k](X[b, i, k] * Y[b, j, k])
""",
    """program softmax[N=5, M=9](X: f32[N, M]) -> Y: f32[N, M]:
    m[i] = max[j](X[i, j])
    E[i, j] = exp(X[i, j] - m[i])
    s[i] = sum[j](E[i, j])
    Y[i, j] = E[i, j] / s[i]
""",
    """program layer_norm[N=5, M=9](X: f32[N, M], g: f32[M], b: f32[M], eps: f32) -> Y: f32[N, M]:
    s[i] = sum[j](X[i, j])
    v[i] = sum[j]((X[i, j] - s[i] / M) * (X[i, j] - s[i] / M))
    Y[i, j] = (X[i, j] - s[i] / M) * rsqrt(v[i] / M + eps) * g[j] + b[j]
""",
    """program attention[N=6, D=4](Q: f32[N, D], K: f32[N, D], V: f32[N, D]) -> O: f32[N, D]:
    S[i, j] = sum[d](Q[i, d] * K[j, d])
    M[i, j] = S[i, j] / sqrt(D) if j <= i else -inf
    m[i] = max[j](M[i, j])
    E[i, j] = exp(M[i, j] - m[i])
    s[i] = sum[j](E[i, j])
    O[i, d] = sum[j](E[i, j] / s[i] * V[j, d])
""",
    """program pooling[H=8, C=3](X: f32[H, H, C]) -> Y: f32[H // 2, H // 2, C]:
    Y[h, w, c] = max[r < 2, s < 2](X[2*h + r, 2*w + s, c])
""",
    """program quantised[N=4, M=5, K=6](A: u8[N, K], const B: i8[K, M]) -> C: i32[N, M]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]))
""",
    """program space_to_depth[H=8, B=2](X: f32[H, H]) -> Y: f32[H // B, H // B, B * B]:
    Y[h, w, c] = X[h*B + c // B, w*B + c % B]
""",
]


@pytest.mark.parametrize("text", PROGRAMS, ids=[text.split("[")[0].split()[1] for text in PROGRAMS])
def test_operators(text: str) -> None:
    program = parse_program(text)
    validate(program.func)
    assert parse_program(str(program)) == program
