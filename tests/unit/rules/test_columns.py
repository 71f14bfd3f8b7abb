"""The rule for reductions across rows."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from tests.support.rulework import TARGET, apply, correct, reasons, rule

COLUMNS = """
program columns[N=40, K=20](A: f32[K, N]) -> C: f32[N]:
    sums: C[i] = sum[k](A[k, i])
"""
LARGEST = """
program largest[N=40, K=20](A: f32[K, N]) -> (V: f32[N], P: i64[N]):
    best: V[i], P[i] = argmax[k](A[k, i])
"""
CHANNELS = """
program channels[B=3, H=5, W=4, N=40](A: f32[B, H, W, N]) -> C: f32[B, N]:
    mean: C[b, i] = sum[h, w](A[b, h, w, i])
"""


COLOURS = """
program colours[N=40](A: f32[9, N, 3]) -> C: f32[9, N]:
    brightest: C[b, i] = max[c](A[b, i, c])
"""


@pytest.mark.parametrize(
    "text", [COLUMNS, LARGEST, CHANNELS, COLOURS], ids=["sum", "argmax", "two loops", "a row of three for each"]
)
@pytest.mark.parametrize("extent", [3, 40, 127])
def test_a_run_of_columns_goes_innermost_and_into_lanes(text: str, extent: int) -> None:
    sch, outcomes = apply(text, "columns", "vectorize", N=extent)
    assert [o.reason for o in outcomes] == [None, None]
    block = sch.describe(sch.get_block(sch.block_names()[0]))
    assert block.kinds[-1] is ms.LoopKind.VECTORIZED
    assert [it.name for it in block.iter_of(block.loops[-1])] == ["i"]
    assert sch.trace.decisions[f"columns({block.name})/columns"] in (16, 64, 256)
    correct(sch)


def test_short_rows_of_neighbours_are_loaded_as_vectors() -> None:
    sch, _ = apply(COLOURS, "columns", "vectorize", N=640)
    assert "masked.gather" not in emit(lower(sch.func, TARGET), TARGET).text


def test_the_guess_takes_it() -> None:
    kernel = ms.compile(ms.parse_program(COLUMNS, N=1024, K=1024))
    assert "columns(sums)/columns" in kernel.trace.decisions
    assert "vectorize(" in str(kernel.trace)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("program p[N=9](A: f32[N]) -> B: f32[N]:\n    x: B[i] = A[i]\n", "it is not a reduction"),
        ("program p[N=9](A: f32[N]) -> B: f32[]:\n    x: B[] = sum[k](A[k])\n", "it has no loop over columns"),
        (
            "program p[N=9](A: f32[N, N]) -> B: f32[N]:\n    x: B[i] = sum[k](A[i, k])\n",
            "what it reduces does not lie along its last dimension",
        ),
        (
            "program p(A: f32[9, 3]) -> B: f32[3]:\n    x: B[c < 3] = sum[k < 4](A[2*c + k, 1])\n",
            "what it reduces does not lie along its last dimension",
        ),
        ("program p[N=1](A: f32[9, N]) -> B: f32[N]:\n    x: B[i] = sum[k](A[k, i])\n", "it has so few columns (1)"),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, "columns") == {"x": reason}


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda s, b: s.unroll(s.get_loops(b)[-1]), "its loops have been decided already"),
        (lambda s, b: s.reorder(*reversed(s.get_loops(b))), "no loop over rows is inside that over columns"),
    ],
)
def test_it_leaves_decided_loops_alone(prepare: object, reason: str) -> None:
    sch = ms.Schedule(ms.parse_program(COLUMNS))
    block = sch.get_block("sums")
    prepare(sch, block)  # type: ignore[operator]
    assert rule("columns").apply(sch, block) == ms.skip(reason)


def test_tiles_are_left_alone() -> None:
    text = "program p[N=64](A: f32[N, N], B: f32[N, N]) -> C: f32[N, N]:\n    x: C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    assert apply(text, "multi_level_tiling", "columns")[1][-1].reason == "its loops are tiles already"
