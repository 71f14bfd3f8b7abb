"""The rule that adds each term at the place where it belongs."""

from __future__ import annotations

import numpy as np
import pytest
from metasched.rules.scatter import COMPARED, SCATTERED

import metasched as ms
from metasched.cost.features import FeatureProgram, features_of
from metasched.ir.printer import print_func
from tests.support.rulework import apply, correct, reasons, rule
from tests.support.targets import AVX512

HISTOGRAM = """
program histogram[H=33, W=21, V=70](X: i8[H, W]) -> N: i32[V]:
    N[v < V] = sum[i, j if i64(X[i, j]) == v](i32(1))
"""
EMBEDDING = """
program gradient[T=19, V=70, D=140](K: i32[T], G: f32[T, D]) -> S: f32[V, D]:
    S[v < V, d] = sum[t if K[t] == i32(v)](G[t, d])
"""
CELLS = """
program cells[GH=3, GW=5, S=4, Z=9](X: f32[GH*S, GW*S]) -> C: f32[2, GH, GW, Z]:
    C[c < 2, i, j < GW, z < Z] = sum[r < S, s < S if i32(X[i*S + r, j*S + s]) == i32(z) - 2](f32(c))
"""
LONG = """
program long[T=9000, V=70](K: i64[T], G: f32[T]) -> S: f32[V]:
    S[v < V] = sum[t if K[t] == v](G[t])
"""
TABLE = """
program table[T=7, V=80, D=6](K: i64[T], W: f32[V, D]) -> Y: f32[T, D]:
    Y[t, d] = sum[v if K[t] == v](W[v, d])
"""
FEW = """
program few[N=50](X: i64[N]) -> C: i64[3]:
    C[v < 3] = sum[i if X[i] == v](1)
"""
# With strips of whole rows, the places do not depend on the strip.
ROWS = """
program rows[R=2, T=8192, V=70](K: i64[T], X: i64[R, T]) -> S: i64[V]:
    S[v < V] = sum[r < R, t < T if K[t] == v](X[r, t])
"""
TEXTS = {"histogram": HISTOGRAM, "embedding": EMBEDDING, "cells": CELLS}


def always() -> ms.Rule:
    return rule("scatter")(tiny=0)  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_scattered_is_right_and_features_are_those_of_replayed_traces(text: str) -> None:
    space = ms.space(ms.parse_program(text), rules=[always(), "cpu"])
    sketch = next(s for s in space if COMPARED not in s.structure.values())
    assert "scattered" in print_func(sketch.func)
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
    rows = rows[sketch.mask(rows)][:2]
    assert len(rows)
    parametric = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
    for row, found in zip(rows, parametric, strict=True):
        replayed = sketch.trace_of(row).apply_to(space.program)
        correct(replayed)
        np.testing.assert_allclose(features_of(replayed.func, AVX512), found, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_strips_of_terms_are_shared_whatever_decides_the_places(threads: int, seed: int) -> None:
    sch = ms.Schedule(ms.parse_program(ROWS), AVX512.with_threads(threads), seed=seed)
    assert rule("scatter")(sch, sch.get_block("S")) is None
    assert "parallel" in print_func(sch.func)


def test_few_places_are_a_choice_and_many_none() -> None:
    structures = [set(s.structure.values()) for s in ms.space(ms.parse_program(CELLS), rules=[always()])]
    assert structures == [{SCATTERED}, {COMPARED}]
    assert [dict(s.structure) for s in ms.space(ms.parse_program(HISTOGRAM), rules=[always()])] == [{}]


def test_blocks_of_long_sums_are_long_beside_the_places() -> None:
    """Each starts and ends with all of them."""
    sch, _ = apply(LONG, "blocked_sums", always(), V=5000)
    assert 'annotate(S, "blocked_sum", 40000)' in str(sch.trace)


def test_one_row_of_a_table_is_read_for_each_element() -> None:
    sch, _ = apply(TABLE, always())
    assert "scatter(v)" in str(sch.trace)
    assert "rfactor" not in str(sch.trace)
    correct(sch)


def test_terms_of_neighbouring_elements_are_taken_in_turns_in_strips() -> None:
    text = "program p(K: i64[30, 200], X: f32[30, 200]) -> S: f32[70, 200]:\n"
    sch, _ = apply(f"{text}    S[v, j] = sum[t < 30 if K[t, j] == v](X[t, j])", always())
    info = sch.describe(sch.get_block("S"))
    assert [info.iter_of(loop)[0].name for loop in info.loops] == ["j", "t", "j", "v"]
    assert info.extents[-2] == 64
    correct(sch)


def test_why_not() -> None:
    assert reasons(FEW, "scatter") == {"C": "it has so few places (3) that comparing takes no longer"}
    dense = "program p[N=9](A: f32[N, N]) -> C: f32[N]:\n    C[i] = sum[k](A[i, k])\n"
    assert reasons(dense, "scatter") == {"C": "no condition of it says at which place a term is"}
