"""The rule that computes the stages of a pipeline together, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from metasched.rules.grouping import APART, GROUPED

import metasched as ms
from metasched.cost.features import FeatureProgram, features_of
from metasched.ir.printer import print_func
from tests.support.rulework import correct, reasons, rule
from tests.support.targets import AVX512

CORNERS = """
program corners[H=13, W=19](X: i32[H, W]) -> Y: i32[H - 4, W - 4]:
    bright: Q[i, j] = X[i, j] * 3 + X[i, j] * X[i, j] - 1
    U[i < H - 2, j < W - 2] = Q[i, j + 2] - Q[i, j] + Q[i + 1, j + 2] * 2 - Q[i + 2, j] * Q[i + 2, j + 1]
    V[i < H - 2, j < W - 2] = Q[i + 2, j] - Q[i, j] + Q[i + 2, j + 1] * 2 - Q[i + 1, j] * Q[i, j + 1]
    UV[i, j] = U[i, j] * V[i, j]
    S[i < H - 4, j < W - 4] = UV[i, j] + UV[i + 1, j] + UV[i + 2, j + 2]
    last: Y[i, j] = S[i, j] - U[i + 1, j + 1]
"""
COLOURS = """
program colours[H=13, W=19](X: i32[3, H, W]) -> Y: i32[3, H, W]:
    border: P[c < 3, i < H + 2, j < W + 2] = X[c, mirror(i - 1, H), clamp(j - 1, 0, W - 1)]
    grey: Q[i, j] = P[0, i, j] * 3 + P[1, i, j] * 2 + P[2, i, j]
    down: D[i < H, j] = Q[i, j] + Q[i + 1, j] * 2 + Q[i + 2, j]
    across: B[i, j < W] = D[i, j] * 5 + D[i, j + 1] * D[i, j + 2]
    sharp: Y[c, i, j] = B[i, j] * X[c, i, j]
"""
HALVES = """
program halves[H=16, W=20](X: i32[H, W]) -> Y: i32[H, W]:
    narrow: N[i < H // 2 + 1, j < W // 2] = X[clamp(2 * i, 0, H - 1), 2 * j] * X[i, j] + X[i, 2 * j + 1] * 7 - X[i, j]
    filtered: F[i < H // 2, j < W // 2] = N[i, j] * N[i + 1, j] + N[i, j] * 3
    wide: G[i < H, j < W] = F[i // 2, j // 2] * 3 + F[clamp((i + 1) // 2, 0, H // 2 - 1), j // 2]
    sums: Y[i, j] = G[i, j] * G[i, clamp(j + 1, 0, W - 1)] + G[i, j] * X[i, j] + G[i, clamp(j - 1, 0, W - 1)]
"""
# Elements at the borders stay as they are.
STEPS = """
program steps[H=13, W=19](X: i32[H, W]) -> Y: i32[H, W]:
    A[i, j] = X[i - 1, j] + X[i + 1, j] - X[i, j - 1] * 2 if i >= 1 and i < H - 1 and j >= 1 and j < W - 1 else X[i, j]
    B[i, j] = A[i - 1, j] - A[i + 1, j] * 2 + A[i, j + 1] if i >= 1 and i < H - 1 and j >= 1 and j < W - 1 else A[i, j]
    Y[i, j] = B[i - 1, j] * 3 + B[i + 1, j] if i >= 1 and i < H - 1 and j >= 1 and j < W - 1 else B[i, j]
"""
TEXTS = {"corners": CORNERS, "colours": COLOURS, "halves": HALVES, "steps": STEPS}


def always() -> ms.Rule:
    return rule("grouping")(tiny=0, inlined=6)  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_groups_are_right(text: str) -> None:
    space = ms.space(ms.parse_program(text), rules=[always(), "vectorize"])
    grouped = [s for s in space if GROUPED in s.structure.values()]
    assert grouped
    for sketch in grouped:
        rows = sketch.repair(sketch.sample(np.random.default_rng(0), 3))
        for row in rows[sketch.mask(rows)]:
            correct(sketch.trace_of(row).apply_to(space.program))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_features_of_groups_are_those_of_the_replayed_traces(text: str) -> None:
    space = ms.space(ms.parse_program(text), rules=[always(), "vectorize"])
    sketch = next(s for s in space if GROUPED in s.structure.values())
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 4))
    rows = rows[sketch.mask(rows)][:2]
    found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
    for row, features in zip(rows, found, strict=True):
        concrete = features_of(sketch.trace_of(row).apply_to(space.program).func, AVX512)
        np.testing.assert_allclose(features, concrete, rtol=1e-4, atol=1e-4)


def grouped(text: str) -> ms.Schedule:
    space = ms.space(ms.parse_program(text), rules=[always()])
    sketch = next(s for s in space if set(s.structure.values()) == {GROUPED})
    row = sketch.repair(sketch.sample(np.random.default_rng(0), 1))[0]
    return sketch.trace_of(row).apply_to(space.program)


def test_all_stages_are_computed_in_one_nest_of_strips() -> None:
    sch = grouped(CORNERS)
    loops = {sch.describe(sch.get_block(name)).loops[0] for name in sch.block_names()}
    assert len(loops) == 1
    assert print_func(sch.func).count("of axis") == 3, (
        "of the grey image and of both gradients, windows of rows are stored"
    )
    assert "UV" not in sch.block_names(), "what takes one operation is computed where it is read"


def test_rows_are_counted_along_what_all_stages_have() -> None:
    sch = grouped(COLOURS)
    info = sch.describe(sch.get_block("sharp"))
    assert [it.name for it in info.iter_of(info.loops[0])] == ["i"]
    assert info.kinds[0] is ms.LoopKind.PARALLEL


def test_a_stage_that_rows_would_compute_again_begins_a_group() -> None:
    """Two rows of the result need the same row of half as many."""
    space = ms.space(ms.parse_program(HALVES), rules=[always()])
    assert {address.split("/")[0] for s in space for address in s.structure} == {"grouping(sums)", "grouping(filtered)"}


def test_what_caches_hold_is_a_choice_and_what_they_do_not_is_grouped() -> None:
    def structures(**sizes: int) -> list[dict[str, object]]:
        return [
            dict(s.structure) for s in ms.space(ms.parse_program(CORNERS, **sizes), rules=["grouping"], target=AVX512)
        ]

    assert structures(H=300, W=300) == [{"grouping(last)/stages": how} for how in (GROUPED, APART)]
    assert structures(H=3000, W=3000) == [{}]


PYRAMID = """
program pyramid[N=256](X: f32[N + 2, N]) -> Y: f32[2*N - 1, 2*N]:
    coarse: F[i < N, j < N] = X[i, j] + X[i + 1, j] * 2.0 + X[i + 2, j]
    finer: G[i < 2*N, j < 2*N] = F[i // 2, j // 2] * 3.0
    Y[i, j] = G[i, j] + G[i + 1, j]
"""


def test_a_coarser_image_is_stored_where_a_finer_one_would_compute_it_again_and_again() -> None:
    """`G` is computed twice for each element where it is read, and `F`, of a quarter as many, eight times."""
    program = ms.parse_program(PYRAMID)
    sketch = ms.space(program, rules=["grouping"], target=AVX512)[0]
    stages = sketch.trace_of(sketch.sample(np.random.default_rng(0), 1)[0]).apply_to(program)
    assert stages.block_names() == ("coarse", "Y")


SINGLE = "program p[N=9](A: f32[N + 2, N]) -> C: f32[N, N]:\n    C[i, j] = A[i, j] + A[i + 2, j]\n"
POINTWISE = "program p[N=9](A: f32[N, N]) -> C: f32[N, N]:\n    B[i, j] = A[i, j] * 2\n    C[i, j] = B[i, j] + 1\n"
LONG = "program p[N=99](A: f32[N, N]) -> C: f32[N, N]:\n    C[i, j] = sum[k](A[i, k] * A[k, j])\n"
LINE = "program p[N=9](A: f32[N]) -> C: f32[N]:\n    C[i] = A[i] * 2\n"
TWICE = """program p[N=9](A: f32[N + 1, N]) -> C: f32[N, N]:
    B[i < N + 1, j < N] = A[i, j] * 2
    C[i, j] = B[i + 1, j] * sigmoid(B[i + 1, j])
"""
NO_STENCIL = "no stages that only it needs are stencils that move with its rows"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SINGLE, NO_STENCIL),
        (POINTWISE, NO_STENCIL),
        (TWICE, NO_STENCIL),
        (LONG, "it is a reduction that tiles are for"),
        (LINE, "its result has no rows"),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, always())["C"] == reason


def test_small_pipelines_are_left_alone() -> None:
    assert reasons(CORNERS, "grouping")["last"] == (
        "it is so small (135 instances) that starting threads would take longer"
    )
