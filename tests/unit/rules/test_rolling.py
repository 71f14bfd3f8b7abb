"""The rule that keeps rows which neighbouring rows of a stencil share."""

from __future__ import annotations

import numpy as np
import pytest
from metasched.rules.rolling import APART, ROLLING

import metasched as ms
from metasched import operators
from metasched.cost.features import FeatureProgram, features_of
from metasched.ir.printer import print_func
from tests.support.rulework import TARGET, correct, reasons, rule
from tests.support.targets import AVX512

BLUR = """
program blur[H=13, W=19](X: f32[H + 2, W + 2]) -> Y: f32[H, W]:
    A: f32[H + 2, W]
    across: A[h, w] = sum[s < 3](X[h, w + s])
    down:   B[h < H, w] = sum[r < 3](A[h + r, w])
    scaled: Y[h, w] = B[h, w] * 2
"""
UNSHARP = """
program unsharp[H=13, W=19](X: f32[H + 4, W + 2]) -> Y: f32[H, W]:
    A: f32[H + 4, W]
    D: f32[H + 2, W]
    across: A[h, w] = X[h, w] + X[h, w + 1] * 2 + X[h, w + 2]
    down:   D[h, w] = A[h, w] + A[h + 1, w] * 2 + A[h + 2, w]
    again:  Y[h, w] = D[h, w] + D[h + 1, w] + D[h + 2, w] - X[h, w]
"""
CHANNELS = """
program channels[N=2, C=3, H=13, W=19](X: f32[N, C, H + 2, W]) -> Y: f32[N, C, H, W]:
    A: f32[N, C, H + 2, W]
    square: A[n, c, h, w] = X[n, c, h, w] * X[n, c, h, w]
    most:   Y[n, c, h, w] = max[r < 3](A[n, c, h + r, w])
"""
TEXTS = {"blur": BLUR, "unsharp": UNSHARP, "channels": CHANNELS}


def always() -> ms.Rule:
    return rule("rolling")(tiny=0, near=0.0)  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_rolling_windows_are_right(text: str) -> None:
    space = ms.space(ms.parse_program(text), rules=[always(), "columns", "vectorize"])
    (sketch,) = (s for s in space if next(iter(s.structure.values())) == ROLLING)
    assert "of axis" in print_func(sketch.func), "a window of rows is stored"
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 4))
    for row in rows[sketch.mask(rows)]:
        correct(sketch.trace_of(row).apply_to(space.program))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_features_of_windows_are_those_of_the_replayed_traces(text: str) -> None:
    """The law of parametric programs, with all that follows."""
    space = ms.space(ms.parse_program(text), rules=[always(), "cpu"])
    sketch = next(s for s in space if ROLLING in s.structure.values())
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
    rows = rows[sketch.mask(rows)][:3]
    found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
    for row, features in zip(rows, found, strict=True):
        concrete = features_of(sketch.trace_of(row).apply_to(space.program).func, AVX512)
        np.testing.assert_allclose(features, concrete, rtol=1e-4, atol=1e-4)


def test_both_are_in_the_space_of_the_preset() -> None:
    space = ms.space(operators.load("box_blur"))
    assert {s.structure["rolling(down)/rows"] for s in space} == {ROLLING, APART}


def test_threads_share_strips_of_rows() -> None:
    space = ms.space(ms.parse_program(CHANNELS), rules=[always()])
    row = space[0].repair(space[0].sample(np.random.default_rng(0), 1))[0]
    sch = space[0].trace_of(row).apply_to(space.program)
    info = sch.describe(sch.get_block("most"))
    assert info.kinds[0] is ms.LoopKind.PARALLEL
    assert {it.name for it in info.iter_of(info.loops[0])} == {"n", "c", "h"}


HEAD = "program p[N=9](A: f32[N + 2, N]) -> C: f32[N, N]:\n"
COPIED = HEAD + (
    "    B: f32[N + 2, N]\n    pad: B[i, j] = A[i, j] if i >= 1 and i < N + 1 else 0\n"
    "    C[i, j] = B[i, j] + B[i + 2, j]\n"
)
FLIPPED = HEAD + "    B: f32[N, N]\n    B[i, j] = A[i, j] * 2\n    C[i, j] = B[N - 1 - i, j] + B[i, j]\n"
SINGLE = HEAD + "    C[i, j] = A[i, j] + A[i + 2, j]\n"


@pytest.mark.parametrize(
    ("text", "block", "reason"),
    [
        (BLUR, "scaled", "it reads each element at its own place"),
        (SINGLE, "C", "nothing that only it reads can be computed row by row"),
        (COPIED, "C", "what it reads is only copied, within borders"),
        (FLIPPED, "C", "no rows that it reads are read again by its next row"),
    ],
)
def test_it_says_why_not(text: str, block: str, reason: str) -> None:
    assert reasons(text, always())[block] == reason


def test_small_stencils_are_left_alone() -> None:
    expected = "it is so small (741 instances) that starting threads would take longer"
    assert reasons(BLUR, "rolling")["down"] == expected


def test_rows_that_are_all_near_have_no_windows() -> None:
    """Places in a window are remainders, and take longer to find than rows that the first cache holds."""
    expected = "all rows that it reads fit into the first cache together"
    assert reasons(BLUR, rule("rolling")(tiny=0))["down"] == expected
    rows = TARGET.l1 // 2 // (4 * 19)
    for height, found in ((rows - 2, True), (rows - 1, False)):
        text = BLUR.replace("H=13", f"H={height}")
        assert (reasons(text, rule("rolling")(tiny=0)).get("down") == expected) is found


def test_decided_blocks_are_left_alone() -> None:
    sch = ms.Schedule(ms.parse_program(BLUR))
    block = sch.get_block("down")
    sch.unroll(sch.get_loops(block)[-1])
    assert always().apply(sch, block) == ms.skip("it is scheduled already")
