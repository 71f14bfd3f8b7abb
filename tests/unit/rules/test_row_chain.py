"""The rule that computes softmax- and norm-like chains a row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from metasched.rules.row_chain import APART, RECOMPUTED, STORED

import metasched as ms
from metasched import operators
from metasched.ir.printer import print_func
from tests.support.rulework import correct, reasons, rule

NORM = """
program norm[N=5, K=9](A: f32[N, K], g: f32[K]) -> C: f32[N, K]:
    total:   S[i] = sum[k](A[i, k])
    centred: D[i, k] = A[i, k] * 4 - S[i]
    largest: M[i] = max[k](D[i, k] * g[k])
    twice:   T[i] = M[i] / 2
    out:     C[i, k] = D[i, k] + T[i]
"""
COSTLY = """
program costly[N=5, K=9](A: f32[N, K]) -> C: f32[N, K]:
    squares: E[i, k] = sqrt(A[i, k] * A[i, k])
    total:   S[i] = sum[k](E[i, k])
    out:     C[i, k] = E[i, k] - S[i]
"""
CHANNELS = """
program channels[N=3, C=4, W=9](A: f32[N, C, W]) -> D: f32[N, C, W]:
    total: S[c] = sum[n, w](A[n, c, w])
    out:   D[n, c, w] = A[n, c, w] - S[c]
"""


def ways(text: str, **params: int) -> dict[str, ms.Schedule]:
    """The schedule of each structure of the rule alone."""
    space = ms.space(ms.parse_program(text, **params), rules=["row_chain"])
    return {str(next(iter(s.structure.values()))): s.trace_of(()).apply_to(space.program) for s in space}


@pytest.mark.parametrize("text", [NORM, COSTLY, CHANNELS], ids=["norm", "costly", "channels"])
def test_every_way_is_right(text: str) -> None:
    found = ways(text)
    assert found.keys() >= {STORED, APART}
    for schedule in found.values():
        correct(schedule)


def test_the_blocks_of_a_row_share_its_loop() -> None:
    sch = ways(NORM)[STORED]
    assert sch.block_names() == ("total", "largest", "twice", "out"), "what is cheap is computed where it is read"
    outermost = {sch.describe(sch.get_block(name)).loops[0] for name in sch.block_names()}
    assert len(outermost) == 1


def test_costly_elements_are_stored_or_computed_again() -> None:
    found = ways(COSTLY)
    assert set(found) == {STORED, RECOMPUTED, APART}
    assert "temp E: f32[5, 9] local" in print_func(found[STORED].func)
    assert found[RECOMPUTED].block_names() == ("total", "out")


def test_rows_go_outermost() -> None:
    sch = ways(CHANNELS)[STORED]
    info = sch.describe(sch.get_block("out"))
    assert [it.name for loop in info.loops for it in info.iter_of(loop)] == ["c", "n", "w"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("softmax", {"M": 64, "N": 48}),
        ("log_softmax", {"M": 64, "N": 48}),
        ("layer_norm", {"M": 64, "N": 48}),
        ("rms_norm", {"M": 64, "N": 48}),
        ("batch_norm_nchw", {}),
    ],
)
def test_operators_with_rows(name: str, params: dict[str, int]) -> None:
    space = ms.space(operators.load(name, **params))
    assert any(str(value).startswith("rows") for s in space for value in s.structure.values())


def test_the_preset_computes_a_softmax_by_rows_in_lanes() -> None:
    """As the expert trace softmax.fast does, but for what fastmath allows."""
    program = operators.load("softmax", M=6, N=100)
    sketch = next(s for s in ms.space(program) if STORED in s.structure.values())
    assert {v.address for v in sketch.variables} >= {f"reduction_lanes({b})/lanes" for b in ("maximum", "total")}
    rows = sketch.sample(np.random.default_rng(0), 3)
    for row in rows[sketch.mask(rows)]:
        sketch.trace_of(row).apply_to(program)


HEAD = "program p[N=9](A: f32[N, N]) -> C: f32[N, N]:\n"
ONE_ROW = "program p[N=9](A: f32[1, N]) -> C: f32[1, N]:\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            HEAD + "    twice: B[i, j] = A[i, j] * 2\n    C[i, j] = B[i, j] + 1\n",
            "none of what it reads is a reduction of its rows",
        ),
        (
            HEAD.replace("C: f32[N, N]", "C: f32[N]") + "    S[i] = sum[k](A[i, k])\n    C[i] = S[i] / 9\n",
            "its producers read no row twice",
        ),
        (
            HEAD + "    S[j] = sum[k](A[k, j])\n    C[i, j] = A[i, j] - S[j]\n",
            "its rows do not lie along the last dimension",
        ),
        (
            ONE_ROW + "    S[i] = sum[k](A[i, k])\n    C[i, j] = A[i, j] - S[i]\n",
            "none of what it reads is a reduction of its rows",
        ),
    ],
)
def test_it_says_why_not(text: str, reason: str) -> None:
    assert reasons(text, "row_chain")["C"] == reason


def test_few_rows_are_left_to_other_rules() -> None:
    target = ms.Target.detect(threads=8)
    explained = ms.space(ms.parse_program(NORM), rules=["row_chain"], target=target).explain()
    assert "it has so few rows (5)" in explained


def test_what_is_tiled_stays_apart() -> None:
    """The product that a softmax of rows is of reuses its operands: tiles are for it."""
    text = (
        "program p[N=6, K=5](A: f32[N, K], B: f32[K, N]) -> C: f32[N, N]:\n"
        "    product: P[i, j] = sum[k](A[i, k] * B[k, j])\n    largest: M[i] = max[j](P[i, j])\n"
        "    C[i, j] = P[i, j] - M[i]\n"
    )
    sch = ways(text)[STORED]
    loops = {name: sch.describe(sch.get_block(name)).loops[0] for name in sch.block_names()}
    assert loops["largest"] == loops["C"] != loops["product"]


def test_decided_blocks_are_left_alone() -> None:
    sch = ms.Schedule(ms.parse_program(NORM))
    block = sch.get_block("out")
    sch.unroll(sch.get_loops(block)[-1])
    assert rule("row_chain").apply(sch, block) == ms.skip("it is scheduled already")
