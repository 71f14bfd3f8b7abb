"""The last block of a sum whose terms are unrolled in blocks that do not divide them."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.lir import If, Loop, LoopMode, LStmt
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.matrices import multiplies
from tests.support.targets import AVX512

PRODUCT = """
program product[N=4, M=16, K=20](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def blocked(terms: int, block: int, *, limit: int = 0) -> Schedule:
    """Tiles of 4 rows of 16 columns over unrolled blocks of terms; the blocks are unrolled as well up to a limit."""
    sch = Schedule(parse_program(PRODUCT, K=terms))
    i, j, k = sch.get_loops(sch.get_block("C"))
    k0, k1 = sch.split(k, [None, block])
    sch.reorder(k0, k1, i, j)
    sch.unroll(k1)
    sch.unroll(i)
    sch.vectorize(j, lanes=16)
    if limit:
        sch.annotate(k0, "unroll_limit", limit)
    return sch


def conditions(stmt: LStmt) -> int:
    return sum(isinstance(node, If) for node in stmt.walk())


def extents(stmt: LStmt, mode: LoopMode) -> list[str]:
    return [
        str(node.extent.value)
        for node in stmt.walk()
        if isinstance(node, Loop) and node.mode is mode and node.var.startswith("k")
    ]


@pytest.mark.parametrize(("terms", "block"), [(20, 8), (17, 8), (23, 8), (9, 8), (64, 24)])
def test_the_last_block_has_code_of_its_own_without_conditions(terms: int, block: int) -> None:
    sch = blocked(terms, block)
    body = lower(sch.func, AVX512).body
    assert conditions(body) == 0
    assert extents(body, LoopMode.UNROLLED) == [str(block), str(terms % block)]
    multiplies(sch)


def test_a_loop_over_a_single_whole_block_is_none() -> None:
    assert extents(lower(blocked(9, 8).func, AVX512).body, LoopMode.SERIAL) == []
    assert extents(lower(blocked(20, 8).func, AVX512).body, LoopMode.SERIAL) == ["2"]


def test_blocks_that_divide_the_terms_are_left_alone() -> None:
    body = lower(blocked(24, 8).func, AVX512).body
    assert extents(body, LoopMode.UNROLLED) == ["8"]
    assert extents(body, LoopMode.SERIAL) == ["3"]


def test_unrolled_blocks_are_repeated_without_conditions() -> None:
    sch = blocked(20, 8, limit=256)
    body = lower(sch.func, AVX512).body
    assert conditions(body) == 0
    assert extents(body, LoopMode.UNROLLED) == ["2", "8", "4"]
    multiplies(sch)


def test_long_blocks_are_not_repeated() -> None:
    """100 terms of a tile of 4 vectors are 400 statements."""
    body = lower(blocked(220, 100).func, AVX512).body
    assert conditions(body) > 0
    assert extents(body, LoopMode.UNROLLED) == ["100"]


def test_a_block_with_other_statements_is_left_alone() -> None:
    sch = blocked(20, 8)
    block = sch.get_block("C")
    copy = sch.cache_read(block, "A", scope="local")
    sch.compute_at(copy, sch.get_loops(block)[0])
    assert conditions(lower(sch.func, AVX512).body) > 0
    multiplies(sch)


@pytest.mark.parametrize(("blocks", "condition"), [(3, "l < 2*q"), (5, "q*3 + l < 12"), (3, "l + 1 < 4 - 2*q")])
def test_other_conditions_of_a_block_leave_no_more_terms_than_there_are(blocks: int, condition: str) -> None:
    """What the last block always meets is no longer a condition of it, and no extent either."""
    program = parse_program(
        "program p[N=4, M=16](A: f32[N, 48, 3], B: f32[48, M]) -> C: f32[N, M]:\n"
        f"    C[i, j] = sum[q < {blocks}, r < 8, l < 3 if q*8 + r < 20 and {condition}]"
        "(A[i, q*8 + r, l] * B[q*8 + r, j])\n"
    )
    sch = Schedule(program)
    *_, r, last = sch.get_loops(sch.get_block("C"))
    sch.unroll(r)
    sch.unroll(last)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((4, 48, 3), (48, 16)))
    out = np.full((4, 16), np.nan, np.float32)
    build(sch.func, Target.detect())(a, b, out)
    np.testing.assert_array_equal(out, reference(program)(a, b))


def test_blocks_that_unrolled_loops_around_repeat_are_not_repeated_twice() -> None:
    sch = Schedule(parse_program(PRODUCT, N=20, K=255))
    i, j, k = sch.get_loops(sch.get_block("C"))
    k0, k1 = sch.split(k, [None, 128])
    sch.unroll(i)
    sch.unroll(k1)
    sch.reorder(i, j, k0, k1)
    sch.vectorize(j, lanes=16)
    assert extents(lower(sch.func, AVX512).body, LoopMode.UNROLLED) == ["128"]
