"""The rule that asks for lines before they are read."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, apply, correct, reasons, rule

SCALED = """
program scaled[N=6, M=140](A: f32[N, M], B: f32[M]) -> C: f32[N, M]:
    C[i, j] = A[i, j] * B[j]
"""
ROWS = """
program rows[N=6, M=140](A: f32[N, M]) -> C: f32[N]:
    sums: C[i] = sum[k](A[i, k])
"""
MATMUL = """
program matmul[N=80, M=96, K=48](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
PREFETCH = rule("prefetch")(runs=(32, 64), distances=(2,), cache=1024)
LAST = ("vectorize", "reduction_lanes")


def test_no_lengths_or_distances() -> None:
    assert reasons(SCALED, PREFETCH(runs=())) == {"C": "no length of a run is given"}
    assert reasons(SCALED, PREFETCH(distances=())) == {"C": "no distance is given"}


def asks(sch: ms.Schedule) -> bool:
    return "prefetch" in print_kernel(lower(sch.func, TARGET))


@pytest.mark.parametrize("text", [SCALED, ROWS], ids=["element-wise", "sum"])
def test_rows_in_runs_ask_for_what_comes_and_whole_rows_do_not(text: str) -> None:
    (sketch,) = ms.space(ms.parse_program(text), rules=[PREFETCH, *LAST])
    block = "C" if text is SCALED else "sums"
    rows = sketch.sample(np.random.default_rng(0), 40)
    seen = set()
    for row in rows[sketch.mask(rows)]:
        run = sketch.decisions(row)[f"prefetch({block})/run"]
        if run not in seen:
            seen.add(run)
            sch = sketch.trace_of(row).apply_to(sketch.program)
            assert asks(sch) is (run != 140)
            correct(sch)
    assert seen == {140, 32, 64}


def test_a_copy_of_rows_asks_for_rows() -> None:
    program = ms.parse_program(MATMUL)
    target = ms.Target.parse("name=small threads=2 l1=1024 l2=4096 l3=8192 cacheline=64 features=avx,avx2,fma,avx512f")
    rules = ["multi_level_tiling", "packing", rule("prefetch")(distances=(2,), cache=1024), "vectorize"]
    space = ms.space(program, rules=rules, target=target)
    copied = [s for s in space if s.structure["packing(C)/packed"] == "B in panels by tile"]
    asked = set()
    for row in copied[0].sample(np.random.default_rng(0), 12):
        sch = copied[0].trace_of(copied[0].repair(row[None])[0]).apply_to(program)
        ahead = sch.trace.decisions["prefetch(C.B.read)/ahead"]
        assert asks(sch) <= (ahead == 2)
        asked.add(asks(sch))
        correct(sch)
    assert asked == {False, True}


def test_vectors_of_a_run_may_be_wider() -> None:
    sch, _ = apply(SCALED, PREFETCH, rule("vectorize")(lanes=(8,)))
    assert sch.trace.decisions["vectorize(C)/lanes"] in (8, 16)


def test_it_says_why_not() -> None:
    assert reasons(SCALED, "prefetch") == {"C": "a cache of the core holds what it reads along its innermost loop"}
    assert reasons(SCALED, PREFETCH, M=120) == {"C": "its rows (120 elements) are short"}
    turned = "program turned[N=64, M=64](A: f32[N, M]) -> C: f32[M, N]:\n    C[j, i] = A[i, j]\n"
    assert reasons(turned, PREFETCH) == {"C": "it reads no argument along its innermost loop"}
    tiled = {o.rule: o.reason for o in apply(MATMUL, "multi_level_tiling", PREFETCH)[1] if o.block == "C"}
    assert tiled["prefetch"] == "it is tiled, and its operands are read again and again"
    vectors = [o.reason for o in apply(SCALED, "vectorize", PREFETCH)[1]]
    assert vectors == [None, "it is in vectors already, and no copy of rows"]
