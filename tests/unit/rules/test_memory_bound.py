"""Rules for what memory limits: lanes along sums of rows, and stores past the caches."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from tests.support.rulework import apply, correct, reasons, rule

ROWS = """
program rows[N=5, K=40](A: f32[N, K]) -> C: f32[N]:
    sums: C[i] = sum[k](A[i, k])
"""
COLUMNS = """
program columns[N=5, K=40](A: f32[K, N]) -> C: f32[N]:
    sums: C[i] = sum[k](A[k, i])
"""
LARGEST = """
program largest[N=5, K=40](A: f32[N, K]) -> (V: f32[N], P: i64[N]):
    best: V[i], P[i] = argmax[k](A[i, k])
"""
TWO = """
program two[N=5, H=3, K=40](A: f32[N, H, K], B: f32[H, K]) -> C: f32[N]:
    sums: C[i] = sum[h, k](A[i, h, k] * B[h, k])
"""


@pytest.mark.parametrize("text", [ROWS, LARGEST, TWO], ids=["sum", "argmax", "two loops"])
@pytest.mark.parametrize("extent", [8, 40, 127])
def test_a_reduction_runs_in_lanes(text: str, extent: int) -> None:
    sch, outcomes = apply(text, "reduction_lanes", K=extent)
    assert [o.reason for o in outcomes] == [None]
    loop = sch.describe(sch.get_block(sch.block_names()[0]))
    assert loop.kinds[-1] is ms.LoopKind.VECTORIZED
    (lanes,) = sch.trace.decisions.values()
    assert lanes in (16, 32, 64)
    correct(sch)


def test_partial_results_of_two_loops_run_in_lanes() -> None:
    space = ms.space(ms.parse_program(TWO, N=1), rules=["rfactor", "vectorize", "reduction_lanes"])
    outer = next(s for s in space if "outer" in s.structure.values())
    row = outer.repair(outer.sample(np.random.default_rng(1), 1))[0]
    sch = outer.trace_of(row).apply_to(space.program)
    assert "sums.rf" in sch.block_names()
    correct(sch)


def test_lanes_are_told_why_not() -> None:
    assert reasons(COLUMNS, "reduction_lanes") == {"sums": "its reduction runs across rows of what it reads"}
    short = "it is so short (7 terms) that folding lanes would take longer"
    assert reasons(ROWS, "reduction_lanes", K=7) == {"sums": short}
    assert reasons(ROWS, rule("reduction_lanes")(shortest=7), K=7) == {"sums": None}
    text = "program copy[N=40](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n"
    assert reasons(text, "reduction_lanes") == {"B": "it is not a reduction"}
    assert apply(ROWS, "reduction_lanes", "reduction_lanes")[1][1].reason == "it has a vector loop"


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda s, b: s.unroll(s.get_loops(b)[-1]), "its innermost loop has been decided already"),
        (lambda s, b: s.reorder(*reversed(s.get_loops(b))), "its innermost loop does not run along the reduction"),
        (
            lambda s, b: s.annotate(s.get_loops(b)[-1], "prefetch", 4),
            'vectorize: "prefetch" of loop `k` is about iterations, and those of a vector are lanes',
        ),
    ],
)
def test_lanes_leave_decided_loops_alone(prepare: object, reason: str) -> None:
    sch = ms.Schedule(ms.parse_program(ROWS))
    block = sch.get_block("sums")
    prepare(sch, block)  # type: ignore[operator]
    assert rule("reduction_lanes").apply(sch, block) == ms.skip(reason)


def test_the_preset_sums_rows_in_lanes() -> None:
    softmax = ms.space(operators.load("softmax", M=64, N=640))
    assert "reduction_lanes(total)/lanes" in {v.address for v in softmax[0].variables}
    assert "reduction_lanes     applied" in softmax.explain()


# --- stores past the caches

CHAIN = """
program chain[N=40, M=64](A: f32[N, M], B: f32[M]) -> C: f32[N, M]:
    scaled: S[i, j] = A[i, j] * B[j]
    C[i, j] = max(S[i, j], 0)
"""
SMALL = 1024  # bytes of a last cache that holds none of these


def stream(cache: int = SMALL) -> ms.Rule:
    return rule("stream")(cache=cache)  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(3))
def test_large_results_may_be_stored_past_the_caches(seed: int) -> None:
    sch, outcomes = apply(CHAIN, "inline", "vectorize", stream(), seed=seed)
    assert outcomes[-1].reason is None
    assert sch.trace.decisions["stream(C)/past_caches"] in (0, 1)
    correct(sch)


def test_both_ways_are_in_the_space() -> None:
    space = ms.space(ms.parse_program(CHAIN), rules=["inline", "vectorize", stream()])
    (sketch,) = space
    rows = sketch.sample(np.random.default_rng(0), 32)
    assert {sketch.decisions(row)["stream(C)/past_caches"] for row in rows} == {0, 1}


def test_stores_are_told_why_not() -> None:
    why = {o.block: o.reason for o in apply(CHAIN, "vectorize", stream())[1] if o.rule == "stream"}
    assert why == {"C": None, "scaled": "what it writes is read again"}
    assert reasons(CHAIN, stream())["C"] == "it stores no vectors"
    held = apply(CHAIN, "inline", "vectorize", stream(1 << 20))[1]
    assert held[-1].reason == "the last cache holds all arguments and results"
    assert reasons(ROWS, stream()) == {"sums": "it is a reduction"}
    small = "program shift[N=4096, M=16](A: f32[N], B: f32[M]) -> C: f32[M]:\n    C[i] = A[2*i] + B[i]\n"
    assert apply(small, "vectorize", stream(4096))[1][-1].reason == "its result is small"


def test_the_last_cache_is_this_machines() -> None:
    size = ms.Target.detect().l3 // 8
    explained = ms.space(ms.parse_program(CHAIN, N=size // 64, M=64)).explain()
    assert "stream              applied" in explained
    assert "stream              applied" not in ms.space(ms.parse_program(CHAIN)).explain()
