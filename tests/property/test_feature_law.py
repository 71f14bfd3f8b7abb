"""The law of parametric programs: a row's features are those of the program that its trace makes."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

import numpy as np
import pytest

import metasched as ms
from metasched.cost.features import NAMES, FeatureProgram, features_of
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import For
from metasched.ir.program import Program
from metasched.ir.validate import validate
from metasched.lang.instructions import Ref
from metasched.space.sketch import Sketch
from tests.support.agreement import check_kernel
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


def sketches(name: str) -> tuple[Sketch, ...]:
    space = ms.space(program(name))
    return tuple(islice((variant for n in range(len(space)) for variant in space.variants(n, 3)), 9))


@pytest.mark.parametrize("name", PROGRAMS)
def test_features_of_rows_are_those_of_the_replayed_traces(name: str) -> None:
    rng = np.random.default_rng(0)
    for sketch in sketches(name):
        rows = sketch.repair(sketch.sample(rng, 9))
        rows = rows[sketch.mask(rows)][:2]
        assert len(rows) == 2
        found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
        for row, features in zip(rows, found, strict=True):
            concrete = features_of(sketch.trace_of(row).apply_to(program(name)).func, AVX512)
            wrong = ~np.isclose(features, concrete, rtol=1e-4, atol=1e-4)
            report = [(NAMES[n], features[n], concrete[n]) for n in np.flatnonzero(wrong)]
            assert not report, f"row {dict(zip(sketch.columns, row.tolist(), strict=True))} of\n{sketch}\n{report}"


DEPTHWISE = """
program depthwise[H=11, C=18](X: f32[H, H, C], K: f32[3, 3, C]) -> Y: f32[H, H, C]:
    P: f32[H + 2, H + 2, C]
    pad:  P[h, w, c] = X[h - 1, w - 1, c] if h >= 1 and h < H + 1 and w >= 1 and w < H + 1 else 0
    conv: Y[h, w, c] = sum[r, s](P[h + r, w + s, c] * K[r, s, c])
"""


@ms.rule
def bordered(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Tiles that meet no border are a nest of their own; any of the nests may be empty."""
    if not sch.describe(block).reduces:
        sch.compute_inline(block)
        return None
    h, w, c, r, s = sch.get_loops(block)
    rows, columns = sch.sample_tile(h, parts=2), sch.sample_tile(w, parts=2)
    h0, h1 = sch.split(h, rows)
    w0, w1 = sch.split(w, columns)
    sch.reorder(h0, w0, h1, r, s, w1, c)
    sch.vectorize(c, lanes=16)
    for loop, size in ((w0, columns[1]), (h0, rows[1])):
        first = ms.ceildiv(1, size)
        sch.loop_partition(loop, [first, ms.maximum(first, (11 - 1) // size)])
    return None


@ms.rule
def padded_under_tiles(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Padding under a sampled tile of rows, decomposed."""
    if not sch.describe(block).reduces:
        return ms.skip("it is padding")
    h, w, c, r, s = sch.get_loops(block)
    h0, h1 = sch.split(h, sch.sample_tile(h, parts=2))
    w0, w1 = sch.split(w, sch.sample_tile(w, parts=2))
    sch.reorder(h0, h1, w0, r, s, w1, c)
    pad = sch.get_block("pad")
    sch.compute_at(pad, {"rows": h0, "row": h1, "columns": w0}[sch.choose("at", ["rows", "row", "columns"])])
    own = [x for x, held in zip(sch.get_loops(pad), sch.describe(pad).held, strict=True) if held == 1]
    sch.decompose_padding(pad, own[-2:][0])
    return None


@pytest.mark.parametrize("rule", [bordered, padded_under_tiles], ids=lambda rule: rule.name)
@pytest.mark.parametrize("extent", [1, 2, 11])
def test_parts_that_may_be_empty(rule: ms.Rule, extent: int) -> None:
    if rule is bordered and extent < 11:
        pytest.skip("its points are those of 11")
    prog = ms.parse_program(DEPTHWISE, H=extent)
    rng = np.random.default_rng(0)
    empty = 0
    for sketch in ms.space(prog, rules=[rule]):
        rows = sketch.repair(sketch.sample(rng, 40))
        rows = np.unique(rows[sketch.mask(rows)], axis=0)
        assert len(rows)
        found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
        assert np.isfinite(found).all()
        for row, features in list(zip(rows, found, strict=True))[:8]:
            sch = sketch.trace_of(row).apply_to(prog)
            empty += sum(isinstance(x, For) and as_int(x.extent) == 0 for x in sch.func.body.walk())
            concrete = features_of(sch.func, AVX512)
            wrong = ~np.isclose(features, concrete, rtol=1e-4, atol=1e-4)
            assert not wrong.any(), [(NAMES[n], features[n], concrete[n]) for n in np.flatnonzero(wrong)]
        for row in rows[:2]:
            sch = sketch.trace_of(row).apply_to(prog)
            validate(sch.func)
            check_kernel(ms.compile(prog, trace=sch.trace), prog)
    assert empty or rule is not bordered


def tile(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """A matmul in tiles of any size."""
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_tile(i))
    j0, j1 = sch.split(j, sch.sample_tile(j))
    sch.reorder(i0, j0, k, i1, j1)


@ms.rule
def consumer_in_tile(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """A matmul in tiles of any size, and what follows at a sampled place of the tile."""
    if not sch.describe(block).reduces:
        return ms.skip("it follows")
    tile(sch, block)
    relu = sch.get_block("relu")
    sch.reverse_compute_at(relu, sch.sample_compute_location(relu))
    return None


FOLLOWED = """
program followed[N=13, M=11, K=7](A: f32[N, K], B: f32[K, M], b: f32[M]) -> (D: f32[N, M], E: f32[N, M]):
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    bias:  S[i, j] = C[i, j] + b[j]
    relu:  D[i, j] = max(S[i, j], 0)
    half:  E[i, j] = S[i, j] / 2
"""


@ms.rule
def consumers_in_tile(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """A matmul in tiles of any size, and all that follows at one sampled place of the tile."""
    if not sch.describe(block).reduces:
        return ms.skip("it follows")
    tile(sch, block)
    bias, *rest = map(sch.get_block, ("bias", "relu", "half"))
    where = sch.sample_compute_location(bias, block, then=rest)
    for follower in (bias, *rest):
        sch.reverse_compute_at(follower, where)
    return None


@pytest.mark.parametrize(
    ("prog", "rule", "address"),
    [
        (program("dense of primes"), consumer_in_tile, "consumer_in_tile(dense)/relu"),
        (ms.parse_program(FOLLOWED), consumers_in_tile, "consumers_in_tile(dense)/bias"),
    ],
    ids=["one", "several"],
)
def test_consumers_at_sampled_places(prog: ms.Program, rule: ms.Rule, address: str) -> None:
    rng = np.random.default_rng(0)
    variants = ms.space(prog, rules=[rule]).variants(0, 9)
    places = [Ref("root"), Ref("i_0"), Ref("j_0")]
    assert [v.structure[address] for v in variants] == places
    for sketch in variants:
        rows = sketch.repair(sketch.sample(rng, 8))
        rows = rows[sketch.mask(rows)]
        for row, features in zip(rows, FeatureProgram(sketch.func, sketch.columns, AVX512)(rows), strict=True):
            sch = sketch.trace_of(row).apply_to(prog)
            assert np.allclose(features, features_of(sch.func, AVX512), rtol=1e-4, atol=1e-4), str(sch)
        check_kernel(ms.compile(prog, trace=sketch.trace_of(rows[0])), prog)
