"""Loops over what lies in a row become one."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, apply, correct, reasons, rule
from tests.support.schedules import vars_of

PIXELS = """
program pixels[N=2, C=3, H=7, W=5](X: f32[N, C, H, W], Z: f32[N, C, H, W]) -> Y: f32[N, C, H, W]:
    Y[n, c, h, w] = max(X[n, c, h, w] + Z[n, c, h, w], 0)
"""
SCALED = """
program scaled[N=2, C=3, H=7, W=5](X: f32[N, C, H, W], S: f32[C]) -> Y: f32[N, C, H, W]:
    Y[n, c, h, w] = X[n, c, h, w] * S[c]
"""
POOLED = """
program pooled[N=2, C=3, H=7, W=5](X: f32[N, C, H, W]) -> Y: f32[N, C]:
    Y[n, c] = sum[h, w](X[n, c, h, w])
"""
TURNED = """
program turned[N=6, M=5](X: f32[M, N]) -> Y: f32[N, M]:
    Y[i, j] = X[j, i]
"""
PART = """
program part[N=6, M=5](X: f32[N, M], Z: f32[N, 7]) -> Y: f32[N, M]:
    Y[i, j] = X[i, j] + Z[i, j + 2]
"""


@pytest.mark.parametrize(
    ("text", "block", "expected"), [(PIXELS, "Y", 1), (SCALED, "Y", 3), (POOLED, "Y", 3)], ids=["all", "channel", "sum"]
)
def test_what_lies_in_a_row_is_one_loop(text: str, block: str, expected: int) -> None:
    sch, outcomes = apply(text, "row_runs")
    assert [o.reason for o in outcomes] == [None]
    assert len(vars_of(sch, block)) == expected
    correct(sch)


def test_a_run_has_no_quotients_in_memory() -> None:
    sch, _ = apply(PIXELS, "row_runs", "vectorize")
    text = str(lower(sch.func, TARGET))
    assert "FLOORDIV" not in text
    assert "MOD" not in text
    correct(sch)


def test_a_long_run_is_cut_for_threads() -> None:
    sch, _ = apply(PIXELS, rule("row_runs")(lengths=(32, 64)), H=14)
    outer, _ = vars_of(sch, "Y")
    assert [r.site.address for r in sch.sites] == ["row_runs(Y)/length"]
    assert outer in str(sch)
    correct(sch)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TURNED, "its rows do not follow one another in memory"),
        (PART, "its rows do not follow one another in memory"),
        (PIXELS.replace("W=5", "W=64"), "its rows (64 elements) fill vectors"),
        (PIXELS.replace("W=5", "W=1"), None),
    ],
)
def test_why_not(text: str, reason: str | None) -> None:
    assert reasons(text, "row_runs") == {"Y": reason}


def test_what_is_scheduled_stays() -> None:
    prog = ms.parse_program(PIXELS)
    space = ms.space(prog, rules=["parallelize", "row_runs"], target=TARGET)
    assert "row_runs     applied" in space.explain()
    sch, outcomes = apply(PIXELS, rule("parallelize")(tiny=1), "row_runs")
    assert outcomes[-1].reason == "it is scheduled already"
    correct(sch)


MOVED = """
program moved[N=6, H=8](X: f32[N + 1, H, 3]) -> Y: f32[N, H, 3]:
    above: A[i < N, j < H, c < 3] = X[i, j, c] + X[i + 1, j, c]
    Y[i, j, c] = A[i, H - 1 - j, c] * 2.0
"""


@ms.rule
def move(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute what others read in their outermost loop."""
    info = sch.describe(block)
    if not info.readers:
        return ms.skip("nothing reads it")
    sch.compute_at(block, sch.get_loops(sch.get_block(info.readers[0]))[0])
    return None


def test_a_block_that_was_moved_has_runs_of_its_own_whole_loops() -> None:
    sch, outcomes = apply(MOVED, move, "row_runs", "vectorize")
    assert [o.reason for o in outcomes if o.rule == "row_runs"] == [
        "its rows do not follow one another in memory",
        None,
    ]
    *_, own = vars_of(sch, "above")
    assert "vectorized" in next(line for line in str(sch).splitlines() if own in line)
    assert "in 24:" in str(sch)
    correct(sch)


def test_a_block_that_was_moved_to_a_part_of_its_rows_stays() -> None:
    sch, outcomes = apply(MOVED.replace("H - 1 - j", "j"), rule("row_runs"), move, "row_runs")
    assert outcomes[-1].reason == "it is scheduled already"
    correct(sch)


def test_a_single_element_has_no_rows() -> None:
    single = "program single[N=64](X: f32[N]) -> Y: f32[]:\n    T[z < 1] = max[i < N](X[i + z])\n    Y[] = T[0] * 2.0\n"
    assert "its rows do not follow one another in memory" in (reasons(single, "row_runs")["Y"] or "")


@pytest.mark.parametrize(("row", "is_joined"), [("j*3 + c", True), ("c*10 + j", False)])
def test_an_index_that_counts_through_a_run_lies_as_the_run_does(row: str, is_joined: bool) -> None:
    """What another block has as one dimension, pixels and channels or planes."""
    text = f"""
program joined(S: f32[9, 30]) -> Y: f32[9, 10, 3]:
    Y[i, j < 10, c < 3] = S[i, {row}] * 2.0
"""
    sch, _ = apply(text, "row_runs")
    assert (len(vars_of(sch, "Y")) < 3) == is_joined
    correct(sch)
