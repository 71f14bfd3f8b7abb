"""The rule that computes chains of reductions in strips."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from metasched.rules.strips import STRIPS

import metasched as ms
from metasched import operators
from metasched.cost.features import FeatureProgram, features_of
from metasched.space.sketch import Sketch
from tests.support.rulework import correct, reasons, rule
from tests.support.targets import AVX512

TWO_PRODUCTS = """
program two_products[N=12, K=5, H=17, M=21](A: f32[N, K], B: f32[K, H], C: f32[H, M]) -> D: f32[N, M]:
    up:   U[i, j] = sum[k](A[i, k] * B[k, j])
    act:  G[i, j] = sqrt(U[i, j] * U[i, j])
    down: D[i, m] = sum[j](G[i, j] * C[j, m])
"""
BLOCK = """
program block[H=9, W=7, C=5, E=18, O=6](
    X: f32[1, H, W, C], A: f32[C, E], D: f32[3, 3, E], B: f32[E, O]
) -> Y: f32[1, H, W, O]:
    P: f32[1, H + 2, W + 2, E]
    V: f32[1, H, W, E]
    expand: T[n < 1, h < H, w < W, e] = sum[c](X[n, h, w, c] * A[c, e])
    relu:   U[n, h, w, e] = max(T[n, h, w, e], 0)
    pad:    P[n, h, w, e] = U[n, h - 1, w - 1, e] if h >= 1 and h < H + 1 and w >= 1 and w < W + 1 else 0
    deep:   V[n, h, w, e] = sum[r, s](P[n, h + r, w + s, e] * D[r, s, e])
    project: Y[n, h, w, o] = sum[e](V[n, h, w, e] * B[e, o])
"""
MIX = """
program mix[L=11, M=9, D=4, E=6](Q: f32[L, D], K: f32[M, D], V: f32[M, E]) -> O: f32[L, E]:
    scores:  S[i, j] = sum[d](Q[i, d] * K[j, d])
    largest: m[i] = max[j](S[i, j])
    apart:   e[i, j] = S[i, j] - m[i]
    mixed:   A[i, d] = sum[j](e[i, j] * V[j, d])
    out:     O[i, d] = A[i, d] * 2 + m[i]
"""


def always() -> ms.Rule:
    return rule("strips")(fewest_bytes=0)  # type: ignore[no-any-return]


def in_strips(text: str, *others: str) -> tuple[ms.Space, list[Sketch]]:
    space = ms.space(ms.parse_program(text), rules=["inline", always(), *others])
    return space, list(islice((s for s in space if STRIPS in s.structure.values()), 4))


@pytest.mark.parametrize("text", [TWO_PRODUCTS, BLOCK, MIX], ids=["products", "block", "mix"])
def test_strips_are_right(text: str) -> None:
    space, sketches = in_strips(text)
    for sketch in sketches:
        rows = sketch.repair(sketch.sample(np.random.default_rng(0), 2))
        for row in rows[sketch.mask(rows)]:
            correct(sketch.trace_of(row).apply_to(space.program))


def test_each_reduction_is_tiled_in_its_strip() -> None:
    space, sketches = in_strips(TWO_PRODUCTS, "multi_level_tiling")
    assert all({"up", "down"} <= {v.address.split("(")[1].split(")")[0] for v in s.variables} for s in sketches)
    assert "consumer at level 1" in {s.structure.get("multi_level_tiling(up)/fusion") for s in sketches}
    rng = np.random.default_rng(1)
    for sketch in sketches:
        rows = sketch.repair(sketch.sample(rng, 4))
        correct(sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(space.program))


def test_the_preset_shares_strips_between_threads() -> None:
    """A space of all the rules, on programs whose intermediates the second cache does not hold."""
    program = operators.load("attention", L=1024, M=1024)
    sketch = next(s for s in ms.space(program) if STRIPS in s.structure.values())
    row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
    sch = sketch.trace_of(row).apply_to(program)
    outermost = {sch.describe(sch.get_block(name)).loops[0] for name in sch.block_names() if ".read" not in name}
    kinds = {sch.describe(sch.get_block(name)).kinds[0] for name in sch.block_names() if ".read" not in name}
    assert len(outermost) == 1
    assert kinds == {ms.LoopKind.PARALLEL}


@pytest.mark.parametrize("text", [TWO_PRODUCTS, BLOCK, MIX], ids=["products", "block", "mix"])
def test_features_of_strips_are_those_of_the_replayed_traces(text: str) -> None:
    """The law of parametric programs, with all that follows."""
    space = ms.space(ms.parse_program(text), rules=[always(), "cpu"])
    sketches = list(islice((s for s in space if STRIPS in s.structure.values()), 2))
    assert sketches
    for sketch in sketches:
        rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
        rows = rows[sketch.mask(rows)][:2]
        found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
        for row, features in zip(rows, found, strict=True):
            concrete = features_of(sketch.trace_of(row).apply_to(space.program).func, AVX512)
            np.testing.assert_allclose(features, concrete, rtol=1e-4, atol=1e-4)


def test_both_are_in_the_space() -> None:
    space = ms.space(ms.parse_program(TWO_PRODUCTS), rules=[always()])
    assert [list(s.structure.values()) for s in space] == [[STRIPS], [ms.LEFT_ALONE]]


PRODUCT = (
    "program p[N=9](A: f32[N, N], B: f32[N, N]) -> C: f32[N, N]:\n"
    "    product: P[i, j] = sum[k](A[i, k] * B[k, j])\n    C[i, j] = P[i, j] + 1\n"
)
SUMS = "program p[N=9](A: f32[N, N]) -> C: f32[N]:\n    B[i] = sum[k](A[i, k])\n    C[i] = B[i] + 1\n"


@pytest.mark.parametrize(
    ("text", "block", "reason"),
    [
        (TWO_PRODUCTS, "up", "other blocks read its result; the last one decides"),
        (TWO_PRODUCTS, "down", "its intermediate results are so small (1632 bytes)"),
        (PRODUCT, "C", "only one block of its chain is a reduction"),
        (SUMS, "C", "none of its producers is a reduction that tiles are for"),
    ],
)
def test_it_says_why_not(text: str, block: str, reason: str) -> None:
    assert reasons(text, "strips")[block] == reason


def test_decided_blocks_are_left_alone() -> None:
    sch = ms.Schedule(ms.parse_program(TWO_PRODUCTS))
    block = sch.get_block("down")
    sch.unroll(sch.get_loops(block)[-1])
    assert always().apply(sch, block) == ms.skip("it is scheduled already")


MASKED = """
program masked[L=96, M=17, D=3, E=6](Q: f32[L, D], K: f32[M, D], C: f32[M], V: f32[M, E]) -> O: f32[L, E]:
    scores:  S[i, j] = sum[d](Q[i, d] * K[j, d])
    largest: m[i] = max[j](S[i, j] + C[j])
    apart:   e[i, j] = S[i, j] - m[i]
    mixed:   O[i, d] = sum[j](e[i, j] * V[j, d])
"""


def test_a_strip_s_sums_along_rows_are_left_to_lanes_and_what_it_would_gather_is_copied() -> None:
    """A mask that all rows read makes no product of a largest score; vectors along the keys would gather these."""
    space, sketches = in_strips(MASKED, "multi_level_tiling", "packing")
    assert sketches
    for sketch in sketches:
        addresses = {variable.address for variable in sketch.variables} | set(sketch.structure)
        assert not any("(largest)" in address for address in addresses)
        assert "multi_level_tiling(scores)/fusion" in sketch.structure
        assert sketch.structure["packing(scores)/packed"] == "K in panels"
    rows = sketches[0].repair(sketches[0].sample(np.random.default_rng(0), 3))
    correct(sketches[0].trace_of(rows[sketches[0].mask(rows)][0]).apply_to(space.program))
    alone = ms.space(ms.parse_program(MASKED), rules=["multi_level_tiling", "packing"])
    found = {sketch.structure.get("packing(scores)/packed") for sketch in alone}
    assert found == {"K in panels", "none"}, "apart, that is for measurements to tell"
