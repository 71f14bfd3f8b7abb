"""The rule that cuts long rows into parts for threads."""

from __future__ import annotations

import pytest

import metasched as ms
from tests.support.rulework import apply, correct, reasons, rule

ADD = """
program add[N=1000](A: f32[N], B: f32[N]) -> C: f32[N]:
    C[i] = A[i] + B[i]
"""
ROWS = """
program rows[M=2, N=1000](A: f32[M, N]) -> C: f32[M, N]:
    C[i, j] = A[i, j] * 2
"""


def always() -> ms.Rule:
    return rule("long_rows")(tiny=0)  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", [ADD, ROWS], ids=["one", "two"])
@pytest.mark.parametrize("extent", [7, 127, 1000])
def test_parts_are_on_threads_and_in_lanes(text: str, extent: int) -> None:
    sch, outcomes = apply(text, always(), rule("parallelize")(tiny=0, small=0), "vectorize", N=extent)
    assert [o.reason for o in outcomes] == [None] * 3
    info = sch.describe(sch.get_block("C"))
    assert info.kinds == (ms.LoopKind.PARALLEL, ms.LoopKind.VECTORIZED)
    correct(sch)


def test_the_guess_takes_it() -> None:
    kernel = ms.compile(ms.parse_program(ADD, N=1 << 18))
    assert "long_rows(C)/i" in kernel.trace.decisions
    assert "parallel(" in str(kernel.trace)
    assert "vectorize(" in str(kernel.trace)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ADD, "it is so small (1000 instances) that starting threads would take longer"),
        (ROWS.replace("M=2", "M=8"), "8 iterations outside are enough for threads"),
        ("program p[N=9](A: f32[N]) -> C: f32[]:\n    C[] = sum[k](A[k])\n", "it is a reduction"),
        (
            "program p[N=9](A: f32[N]) -> C: f32[]:\n    C[] = A[3]\n",
            "its innermost loop does not run along the last dimension",
        ),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, "long_rows") == {"C": reason}


def test_decided_blocks_are_left_alone() -> None:
    sch = ms.Schedule(ms.parse_program(ADD, N=100))
    block = sch.get_block("C")
    sch.unroll(sch.get_loops(block)[-1])
    assert always().apply(sch, block) == ms.skip("it is scheduled already")
