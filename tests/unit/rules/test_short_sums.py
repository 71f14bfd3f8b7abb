"""Sums of few terms for rows of few elements, several rows to a vector."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, apply, correct, reasons
from tests.support.schedules import vars_of

COLOURS = """
program colours[H=9, W=48](X: u8[H, W, 3], const A: f32[3, 3]) -> Y: u8[H, W, 3]:
    m[i, j, c] = sum[k](A[c, k] * f32(X[i, j, k]))
    Y[i, j, c] = u8(clamp(rint(m[i, j, c]), 0.0, 255.0))
"""
POINTS = "program points[N=50](P: f32[N, 4], M: f32[4, 4]) -> Y: f32[N, 4]:\n    Y[n, r] = sum[k](M[r, k] * P[n, k])\n"
WEIGHTED = """
program weighted(X: f32[5, 33, 2, 3], w: f32[5, 33]) -> Y: f32[5, 33, 3]:
    Y[i, j, c] = sum[k, l < 2](w[i, j] * X[i, j, k, c])
"""
LONG = "program long(X: f32[40, 32], A: f32[3, 32]) -> Y: f32[40, 3]:\n    Y[n, c] = sum[k](X[n, k] * A[c, k])\n"
WIDE = "program wide(X: f32[40, 4], A: f32[16, 4]) -> Y: f32[40, 16]:\n    Y[n, c] = sum[k](X[n, k] * A[c, k])\n"
APART = "program apart(X: f32[4, 40], A: f32[3, 4]) -> Y: f32[40, 3]:\n    Y[n, c] = sum[k](X[k, n] * A[c, k])\n"
SCALED = "program scaled(X: f32[40, 3], w: f32[40]) -> Y: f32[40, 3]:\n    Y[n, i] = X[n, i] * w[n]\n"


def several(text: str) -> ms.Schedule:
    """The first draw in which vectors take several rows."""
    draws = (apply(text, "short_sums", seed=seed)[0] for seed in range(20))
    return next(sch for sch in draws if ':= "several"' in str(sch.trace))


@pytest.mark.parametrize(
    ("text", "block", "loops"),
    [
        (COLOURS, "m", 4),
        (POINTS, "Y", 2),
        (COLOURS.replace("W=48", "W=41"), "m", 4),
        (COLOURS.replace("W=48", "W=13"), "m", 3),
    ],
)
def test_vectors_go_over_rows_and_nothing_is_gathered(text: str, block: str, loops: int) -> None:
    """Rows and their elements are one loop, cut where an element-wise block follows and vectors fill rows of pixels,
    or nearly so.
    """
    sch = several(text)
    assert len(vars_of(sch, block)) == loops
    assert "masked.gather" not in emit(lower(sch.func, TARGET), TARGET).text
    correct(sch)


@pytest.mark.parametrize(
    "stage",
    [
        "Y[n] = max[k](X[n, k])",
        "Y[n] = sum[k](X[n, k] * w[k])",
        "M[n < 200], Q[n] = argmin[k](X[n, k])\n    Y[n] = f32(Q[n]) + M[n]",
    ],
    ids=["max", "sum", "argmin"],
)
@pytest.mark.parametrize("count", [200, 197])
def test_short_rows_are_reduced_in_vectors_of_several_rows(stage: str, count: int) -> None:
    """Lanes along a row would be folded for each."""
    given = ", w: f32[10]" if "w[" in stage else ""
    buffers = "    Q: i64[200]\n" if "Q[" in stage else ""
    text = f"program p(X: f32[200, 10]{given}) -> Y: f32[200]:\n{buffers}    {stage}\n".replace("200", str(count))
    sch = several(text)
    (block,) = (name for name in sch.block_names() if sch.describe(sch.get_block(name)).reduces)
    info = sch.describe(sch.get_block(block))
    assert [info.iter_of(loop)[0].name for loop in info.loops] == ["n", "k", "n"]
    assert info.kinds[-1] is ms.LoopKind.VECTORIZED
    correct(sch)


@pytest.mark.parametrize(
    "text",
    [
        "program p(X: f32[200, 41]) -> Y: f32[200]:\n    Y[n] = max[k](X[n, k])\n",
        "program p(X: f32[10, 200]) -> Y: f32[200]:\n    Y[n] = max[k](X[k, n])\n",
        "program p(X: f32[200, 3]) -> Y: f32[200]:\n    Y[n] = max[k](X[n, k])\n",
        "program p(X: f32[20, 10]) -> Y: f32[20]:\n    Y[n] = max[k](X[n, k])\n",
    ],
    ids=["long", "columns", "few terms", "few rows"],
)
def test_other_rows_are_left_alone(text: str) -> None:
    assert "Y" in reasons(text, "short_sums")


@pytest.mark.parametrize("width", [48, 41])
def test_what_follows_is_in_the_same_vectors(width: int) -> None:
    sch = several(COLOURS.replace("W=48", f"W={width}"))
    sums, follower = (sch.describe(sch.get_block(name)) for name in ("m", "Y"))
    assert follower.loops[:2] == sums.loops[:2]
    assert follower.kinds[-1] is ms.LoopKind.VECTORIZED
    assert "parallel" not in str(sch.trace)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LONG, "it sums so many terms (32)"),
        (WIDE, "it has no rows of 2 to 8 elements"),
        (APART, "what its rows read is apart"),
        (WEIGHTED, "what its rows read is apart"),
        (SCALED, "it is not a reduction that nothing has scheduled"),
        (POINTS.replace("N=50", "N=5"), "it has no rows of 2 to 8 elements"),
    ],
)
def test_others_are_left_alone(text: str, reason: str) -> None:
    assert reason in reasons(text, "short_sums").values()


def test_a_small_array_that_all_rows_read_is_near() -> None:
    """Written out, the same is for `short_rows`."""
    text = """
program written(X: u8[9, 41, 2], A: f32[3, 2]) -> Y: f32[9, 41, 3]:
    Y[i, j, c] = f32(X[i, j, 0]) * A[c, 0] + f32(X[i, j, 1]) * A[c, 1]
"""
    draws = (apply(text, "short_rows", seed=seed)[0] for seed in range(20))
    sch = next(sch for sch in draws if ':= "several"' in str(sch.trace))
    assert "masked.gather" not in emit(lower(sch.func, TARGET), TARGET).text
    correct(sch)
