"""Terms of register tiles whose rows have terms within bounds of their own."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.compiler import lir
from metasched.compiler.lower import lower
from tests.support.targets import AVX512

PROGRAM = """
program rows(X: f32[16, 16, 32], W: f32[3, 3, 32, 64]) -> Y: f32[14, 14, 64]:
    Y[h, w, o] = sum[r, s, c if {}](X[h + r, w + s, c] * W[r, s, c, o])
"""
BOUNDED = "h + r >= 1 and h + r < 15"


def tiled(condition: str, rows: int, pixels: int, channels: int = 32, terms: int = 8) -> ms.Schedule:
    """A tile in registers, and terms that the block's limit unrolls with it."""
    sch = ms.Schedule(ms.parse_program(PROGRAM.format(condition)))
    h, w, o, r, s, c = sch.get_loops(sch.get_block("Y"))
    outer, inner = zip(*(sch.split(x, [None, n]) for x, n in ((h, rows), (w, pixels), (o, channels))), strict=True)
    sch.reorder(*outer, r, s, *sch.split(c, [None, terms]), *inner)
    sch.vectorize(inner[2], lanes=16)
    sch.annotate(sch.get_block("Y"), "unroll_limit", 256)
    return sch


def modes(sch: ms.Schedule) -> dict[str, lir.LoopMode]:
    program = lower(sch.func, AVX512)
    return {node.var: node.mode for node in program.body.walk() if isinstance(node, lir.Loop)}


def is_unrolled(sch: ms.Schedule, loop: str = "c_1") -> bool:
    return modes(sch)[loop] is lir.LoopMode.UNROLLED


def test_terms_stay_a_loop_around_the_unrolled_tile() -> None:
    sch = tiled(BOUNDED, 7, 2)
    assert not is_unrolled(sch)
    assert is_unrolled(sch, "h_1")
    assert is_unrolled(sch, "w_1")


@pytest.mark.parametrize(
    ("condition", "tile"),
    [
        (BOUNDED, (2, 2)),
        (BOUNDED, (1, 14)),
        ("w + s >= 0", (7, 2)),
        ("c % 2 == 0", (7, 2)),
    ],
    ids=["all fits in registers", "one row at a time", "every term is there", "not about rows"],
)
def test_other_terms_are_unrolled(condition: str, tile: tuple[int, int]) -> None:
    assert is_unrolled(tiled(condition, *tile))


def test_a_loop_that_was_unrolled_by_name_is() -> None:
    sch = tiled(BOUNDED, 7, 2)
    sch.unroll(next(loop for loop in sch.get_loops(sch.get_block("Y")) if str(loop) == "c_1"))
    assert is_unrolled(sch)


def test_terms_of_a_register_array_are_numbers_that_are_known() -> None:
    sch = tiled(BOUNDED, 7, 3, 16, terms=2)
    loops = {str(loop): loop for loop in sch.get_loops(sch.get_block("Y"))}
    copy = sch.cache_read(sch.get_block("Y"), "W", scope="register")
    sch.compute_at(copy, loops["c_0"])
    copy = sch.get_block("Y.W.read")
    sch.vectorize(sch.get_loops(copy)[-1], lanes=16)
    sch.annotate(copy, "unroll_limit", 64)
    assert is_unrolled(sch)


def test_last_rows_of_a_tile_are_asked_for_like_padded_ones() -> None:
    text = (
        "program p(A: f32[100, 192], B: f32[192, 256]) -> C: f32[100, 256]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    )
    sch = ms.Schedule(ms.parse_program(text))
    i, j, k = sch.get_loops(sch.get_block("C"))
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(x, [None, n]) for x, n in ((i, 12), (j, 32), (k, 4)))
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(sch.get_block("C"), "unroll_limit", 256)
    assert is_unrolled(sch, "k_1")
    sch.compute_at(sch.cache_read(sch.get_block("C"), "B", scope="local"), k0)
    assert not is_unrolled(sch, "k_1")


def test_results_are_the_same() -> None:
    sch = tiled(BOUNDED, 7, 2)
    rng = np.random.default_rng(0)
    X, W = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 16, 32), (3, 3, 32, 64)))
    found = ms.compile(sch.program, trace=sch.trace)(X, W)
    np.testing.assert_allclose(found, ms.reference(sch.program)(X, W), rtol=1e-4, atol=1e-4)
