"""Element-wise blocks over rows of few elements, several rows to a vector."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, apply, correct, reasons
from tests.support.schedules import vars_of

BLENDED = """
program blended[H=9, W=40, C=3](A: u8[H, W, C], B: u8[H, W, C], m: f32[H, W], b: f32[C]) -> Y: u8[H, W, C]:
    Y[i, j, c] = u8(clamp(f32(A[i, j, c]) * m[i, j] + f32(B[i, j, c]) * (1.0 - m[i, j]) + b[c], 0.0, 255.0))
"""
CROSSED = """
program crossed[N=40](a: f32[N, 3], b: f32[N, 3]) -> c: f32[N, 3]:
    c[n, i] = a[n, (i + 1) % 3] * b[n, (i + 2) % 3] - a[n, (i + 2) % 3] * b[n, (i + 1) % 3]
"""
SCALED = "program scaled(X: f32[40, 3], w: f32[40]) -> Y: f32[40, 3]:\n    Y[n, i] = X[n, i] * w[n]\n"
TURNED = "program turned(X: f32[3, 40]) -> Y: f32[40, 3]:\n    Y[n, c] = X[c, n] * 2.0\n"
EVERY_OTHER = "program every(X: f32[80, 3]) -> Y: f32[40, 3]:\n    Y[n < 40, c] = X[2 * n, c] + X[2 * n + 1, c]\n"
ALIKE = "program alike(X: f32[40, 3]) -> Y: f32[40, 3]:\n    Y[n, c] = X[n, c] * 2.0\n"
SUMS = "program sums(X: f32[40, 3, 5]) -> Y: f32[40, 3]:\n    Y[n, c] = sum[k](X[n, c, k])\n"


def several(text: str) -> ms.Schedule:
    """The first draw in which vectors take several rows."""
    draws = (apply(text, "short_rows", seed=seed)[0] for seed in range(20))
    return next(sch for sch in draws if '"several"' in str(sch.trace).split(":=")[1])


@pytest.mark.parametrize(("text", "block"), [(BLENDED, "Y"), (CROSSED, "c"), (SCALED, "Y")])
def test_vectors_go_over_rows_and_nothing_is_gathered(text: str, block: str) -> None:
    sch = several(text)
    assert len(vars_of(sch, block)) == len(sch.describe(sch.get_block(block)).spatial) - 1
    assert "masked.gather" not in emit(lower(sch.func, TARGET), TARGET).text
    correct(sch)


@pytest.mark.parametrize("extent", [9000, 9001, 9973])
def test_rows_are_cut_into_parts_of_whole_vectors_for_threads(extent: int) -> None:
    sch = several(CROSSED.replace("N=40", f"N={extent}"))
    outer, inner = sch.describe(sch.get_block("c")).extents
    assert outer is not None
    assert inner in (480, 2016, 8160)
    assert outer == -(-3 * extent // inner)
    correct(sch)


def test_a_row_at_a_time_is_the_other_choice() -> None:
    choices = {
        str(apply(SCALED, "short_rows", seed=seed)[0].trace).split(":=")[1].splitlines()[0] for seed in range(20)
    }
    assert choices == {' "several"', f' "{ms.LEFT_ALONE}"'}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TURNED, "what its rows read is apart"),
        (EVERY_OTHER, "what its rows read is apart"),
        (ALIKE, "what it reads lies as its result does"),
        (SUMS, "it is not an element-wise block that nothing has scheduled"),
        (BLENDED.replace("C=3", "C=16"), "it has no rows of 2 to 8 elements"),
        (BLENDED.replace("W=40", "W=4"), "it has no rows of 2 to 8 elements"),
    ],
    ids=["planes", "every other row", "alike", "a reduction", "long rows", "few rows"],
)
def test_why_not(text: str, reason: str) -> None:
    assert reasons(text, "short_rows") == {"Y": reason}


def test_rows_that_hold_another_block_stay_rows() -> None:
    text = (
        "program f(X: f32[90, 3], m: f32[90]) -> Y: f32[90, 3]:\n    b[h] = 2.0 * m[h]\n    Y[h, c] = X[h, c] * b[h]\n"
    )

    @ms.rule
    def inside(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
        """Compute `b` in the rows of `Y`."""
        if sch.describe(block).name != "b":
            return ms.skip("it is another block")
        sch.compute_at(block, sch.get_loops(sch.get_block("Y"))[0])
        return None

    _, outcomes = apply(text, inside, "short_rows")
    assert "there is another block in the loops that would be one" in {o.reason for o in outcomes}
