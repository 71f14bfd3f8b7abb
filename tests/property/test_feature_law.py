"""The law of parametric programs: a row's features are those of the program that its trace makes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import metasched as ms
from metasched.cost.features import NAMES, FeatureProgram, features_of
from metasched.ir.program import Program
from metasched.space.sketch import Sketch
from tests.support.targets import AVX512

DENSE = """
program dense_relu[N=64, M=96, K=32](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""
CONV = """
program conv[H=7, C=8, O=16](X: f32[H, H, C], W: f32[3, 3, C, O]) -> Y: f32[H, H, O]:
    P: f32[H + 2, H + 2, C]
    pad:  P[h, w, c] = X[h - 1, w - 1, c] if h >= 1 and h < H + 1 and w >= 1 and w < H + 1 else 0
    conv: Y[h, w, o] = sum[r, s, c](P[h + r, w + s, c] * W[r, s, c, o])
"""
TALL = """
program tall[N=8, K=512, M=4](A: f32[N, K], D: f32[K, M]) -> E: f32[N, M]:
    relu: B[i, k] = max(A[i, k], 0)
    pad:  C[i, k] = B[i, k] if k < 400 else 0
    mul:  E[i, j] = sum[k](C[i, k] * D[k, j])
"""
STRIDED = """
program strided[H=9, C=24, O=32](X: f32[H, H, C], W: f32[4, 4, C, O]) -> Y: f32[2 * H, 2 * H, O]:
    P: f32[H + 2, H + 2, C]
    pad:  P[h, w, c] = X[h - 1, w - 1, c] if h >= 1 and h < H + 1 and w >= 1 and w < H + 1 else 0
    conv: Y[h, w, o] = sum[r, s, c if (h + r) % 2 == 0 and (w + s) % 2 == 0](P[(h + r) // 2, (w + s) // 2, c] * W[r, s, c, o])
"""  # noqa: E501
LOWER = """
program lower[N=40, K=70](A: f32[N, K], B: f32[K, N]) -> C: f32[N, N]:
    C[i, j] = sum[k if k <= i and k > j](A[i, k] * B[k, j])
"""
UNFOLDED = """
program unfolded[H=7, C=4, O=70](X: f32[C, H, H], const K: f32[O, C, 3, 3]) -> Y: f32[O, H - 2, H - 2]:
    conv: Y[o, h < H - 2, w < H - 2] = sum[c, r, s](X[c, h + r, w + s] * K[o, c, r, s])
"""
PROGRAMS = {
    "unfolded": (UNFOLDED, {}),
    "dense": (DENSE, {}),
    "dense of primes": (DENSE, {"N": 31, "M": 127, "K": 7}),
    "conv": (CONV, {}),
    "tall": (TALL, {}),
    "strided": (STRIDED, {}),
    "lower": (LOWER, {}),
}


@lru_cache
def program(name: str) -> Program:
    text, params = PROGRAMS[name]
    return ms.parse_program(text, **params)


@lru_cache
def sketches(name: str) -> tuple[Sketch, ...]:
    space = ms.space(program(name))
    return tuple(variant for n in range(len(space)) for variant in space.variants(n, 3))[:12]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_features_of_rows_are_those_of_the_replayed_traces(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for sketch in sketches(name):
        rows = sketch.repair(sketch.sample(rng, 6))
        rows = rows[sketch.mask(rows)][:2]
        found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
        for row, features in zip(rows, found, strict=True):
            concrete = features_of(sketch.trace_of(row).apply_to(program(name)).func, AVX512)
            wrong = ~np.isclose(features, concrete, rtol=1e-4, atol=1e-4)
            report = [(NAMES[n], features[n], concrete[n]) for n in np.flatnonzero(wrong)]
            assert not report, f"row {dict(zip(sketch.columns, row.tolist(), strict=True))} of\n{sketch}\n{report}"
