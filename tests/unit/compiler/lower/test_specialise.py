"""Imperfect tiles in cases: no condition inside a reduction, accumulators in registers, and the right results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from metasched.compiler.lir import ArrayKind, If, Loop, LoopProgram, LStmt, Write
from metasched.compiler.lower import lower
from metasched.ir.nodes import Load, Var
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.matrices import multiplies
from tests.support.targets import AVX512

MATMUL = """
program matmul[N=127, M=127, K=127](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""

RELU = """
program relu[N=127, M=127, K=20](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
    D[i, j] = max(C[i, j], 0)
"""

BYTES = """
program bytes[N=10, M=48, K=16](A: u8[N, K], B: i8[K // 4, M, 4]) -> C: i32[N, M]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k // 4, j, k % 4]))
"""


def tiled(n: int, m: int, k: int = 20, *, rows: tuple[int, ...] = (8,), columns: tuple[int, ...] = (32,)) -> Schedule:
    """Register tiles of `rows[-1]` by `columns[-1]`, with the tile levels before them inside the reduction."""
    sch = Schedule(parse_program(MATMUL, N=n, M=m, K=k))
    i, j, kk = sch.get_loops(sch.get_block("C"))
    i0, *i_inner = sch.split(i, [None, *rows])
    j0, *j_inner = sch.split(j, [None, *columns])
    k0, k1 = sch.split(kk, [None, 8])
    sch.reorder(i0, j0, k0, *i_inner[:-1], *j_inner[:-1], k1, i_inner[-1], j_inner[-1])
    sch.unroll(i_inner[-1])
    sch.vectorize(j_inner[-1], lanes=16)
    sch.annotate(k1, "unroll_limit", 64)
    return sch


def walk(stmt: LStmt, reduction: bool = False, *, around: str = "k_1") -> Iterator[tuple[LStmt, bool]]:
    """Statements, and whether the innermost loop of the reduction is around them."""
    yield stmt, reduction
    inside = reduction or (isinstance(stmt, Loop) and stmt.var.startswith(around))
    for child in stmt.children():
        if isinstance(child, LStmt):
            yield from walk(child, inside, around=around)


def conditions_inside_the_reduction(kernel: LoopProgram) -> int:
    return sum(isinstance(stmt, If) and inside for stmt, inside in walk(kernel.body))


def written_inside_the_reduction(kernel: LoopProgram, *, around: str = "k_1") -> set[ArrayKind]:
    kinds = {array.name: array.kind for array in kernel.arrays}
    found = walk(kernel.body, around=around)
    return {kinds[stmt.array] for stmt, inside in found if isinstance(stmt, Write) and inside}


SIZES = pytest.mark.parametrize(("n", "m"), [(127, 127), (128, 127), (127, 128), (7, 7), (9, 33), (131, 61), (16, 64)])


@SIZES
def test_a_consumer_in_a_loop_between_the_cases_of_rows_and_columns_leaves_no_condition(n: int, m: int) -> None:
    sch = Schedule(parse_program(RELU, N=n, M=m))
    i, j, k = sch.get_loops(sch.get_block("C"))
    (i0, i1), (j0, j1, j2), (k0, k1) = sch.split(i, [None, 8]), sch.split(j, [None, 2, 16]), sch.split(k, [None, 8])
    sch.reorder(i0, j0, k0, j1, k1, i1, j2)
    sch.unroll(i1)
    sch.vectorize(j2, lanes=16)
    sch.reverse_compute_at(sch.get_block("D"), j0)
    assert conditions_inside_the_reduction(lower(sch.func, Target.detect())) == 0
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (n, 20)).astype(np.float32), rng.integers(-4, 5, (20, m)).astype(np.float32)
    out = np.full((n, m), np.nan, np.float32)
    build(sch.func, Target.detect())(a, b, out)
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0))


@SIZES
def test_imperfect_tiles_have_no_condition_inside_the_reduction(n: int, m: int) -> None:
    sch = tiled(n, m)
    kernel = lower(sch.func, Target.detect())
    assert conditions_inside_the_reduction(kernel) == 0
    multiplies(sch)


@SIZES
def test_imperfect_tiles_under_fused_loops(n: int, m: int) -> None:
    sch = tiled(n, m)
    i0, j0, *_ = sch.get_loops(sch.get_block("C"))
    sch.parallel(sch.fuse(i0, j0))
    assert conditions_inside_the_reduction(lower(sch.func, Target.detect())) == 0
    multiplies(sch)


def test_imperfect_tiles_of_an_intrinsic() -> None:
    sch = Schedule(parse_program(BYTES))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 16])
    j00, j01 = sch.split(j0, [None, 2])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j00, k0, i1, j01, j1, k1)
    sch.tensorize(j1, "dot_u8i8_vnni")
    sch.unroll(i1)
    sch.unroll(j01)
    kernel = lower(sch.func, Target.detect())
    assert len([a for a in kernel.arrays if a.kind is ArrayKind.REGISTER]) == 4
    assert not any(isinstance(stmt, If) and in_loop for stmt, in_loop in walk(kernel.body, around="k_0"))


@SIZES
def test_tile_levels_inside_the_reduction(n: int, m: int) -> None:
    multiplies(tiled(n, m, rows=(3, 4), columns=(2, 16)))


def test_every_case_accumulates_in_registers_from_the_start_of_the_reduction() -> None:
    kernel = lower(tiled(127, 127).func, AVX512)
    registers = [a for a in kernel.arrays if a.kind is ArrayKind.REGISTER]
    assert len(registers) == 4
    assert not any(isinstance(node, Load) and node.buffer == "C" for node in kernel.body.walk())


@SIZES
def test_cases_of_tiles_accumulate_in_registers_where_the_last_block_of_a_sum_is_shorter(n: int, m: int) -> None:
    """A guard leaves its terms out by the number of the block, which is outside of the tiles."""
    sch = tiled(n, m, rows=(3, 4), columns=(2, 16))
    sch.annotate(sch.get_block("C"), "blocked_sum", 16)
    assert written_inside_the_reduction(lower(sch.func, AVX512)) == {ArrayKind.REGISTER}
    multiplies(sch)


@SIZES
def test_tiles_inside_a_loop_over_terms_are_cases_where_other_tiles_come_between(n: int, m: int) -> None:
    """A copy for each part of the sum, unrolled: the tile is in memory from one part to the next in any case."""
    sch = Schedule(parse_program(MATMUL, N=n, M=m, K=20))
    i, j, k = sch.get_loops(sch.get_block("C"))
    (i0, i1), (j0, j1), (k0, k1) = sch.split(i, [None, 3]), sch.split(j, [None, 2, 16])[::2], sch.split(k, [None, 4])
    loops = sch.get_loops(sch.get_block("C"))
    sch.reorder(i0, j0, k0, loops[3], k1, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(k1, "unroll_limit", 64)
    sch.compute_at(sch.cache_read(sch.get_block("C"), "B", "local"), k0)
    kernel = lower(sch.func, Target.detect())
    assert conditions_inside_the_reduction(kernel) == 0
    assert written_inside_the_reduction(kernel) == {ArrayKind.REGISTER}
    multiplies(sch)


def test_sums_of_partial_sums_do_not_keep_tiles_from_cases() -> None:
    """They are in memory in any case; what else is in the loop around them keeps the cases inside of it."""
    copied = MATMUL.replace("A[i, k] *", "T[k, i] *").replace("C[i, j] =", "T[k, i] = A[i, k]\n    C[i, j] =")
    sch = Schedule(parse_program(copied, N=16, M=61, K=96))
    block = sch.get_block("C")
    sch.annotate(block, "blocked_sum", 16)
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1, k2 = sch.split(k, [None, 4, 8])
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(j0, k0, i0, k1, k2, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=16)
    sch.compute_at(sch.get_block("T"), k0)
    kernel = lower(sch.func, AVX512)
    assert not any(isinstance(stmt, If) and inside for stmt, inside in walk(kernel.body, around="k_C_2"))
    assert written_inside_the_reduction(kernel, around="k_C_2") == {ArrayKind.REGISTER}
    multiplies(sch)


@pytest.mark.parametrize(("n", "m"), [(128, 130), (7, 32), (15, 50), (30, 34)])
def test_unrolled_levels_of_a_tile_are_no_cases_of_their_own(n: int, m: int) -> None:
    """What is known when it is emitted stays a condition, inside the reduction: cases would keep sums in memory."""
    sch = Schedule(parse_program(MATMUL, N=n, M=m, K=20))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, *i_inner = sch.split(i, [None, 4, 2])
    j0, *j_inner = sch.split(j, [None, 2, 16])
    sch.reorder(i0, j0, k, *i_inner, *j_inner)
    for loop in (*i_inner, j_inner[0]):
        sch.unroll(loop)
    sch.vectorize(j_inner[1], lanes=16)
    wide = "name=x threads=1 l1=32768 l2=1048576 l3=33554432 cacheline=64 features=avx,avx2,avx512f,sse"
    kernel = lower(sch.func, Target.parse(wide))
    assert not any(isinstance(node, Load) and node.buffer == "C" for node in kernel.body.walk())
    multiplies(sch)


def test_tiles_that_are_whole_or_left_out_are_one_case() -> None:
    sch = tiled(16, 64, 24, rows=(3, 4), columns=(3, 16))
    kernel = lower(sch.func, Target.detect())
    assert conditions_inside_the_reduction(kernel) == 0
    assert len([a for a in kernel.arrays if a.kind is ArrayKind.REGISTER]) == 1
    multiplies(sch)


def test_perfect_tiles_are_left_alone() -> None:
    kernel = lower(tiled(128, 128).func, AVX512)
    assert not any(isinstance(stmt, If) for stmt, _ in walk(kernel.body))
    assert len([a for a in kernel.arrays if a.kind is ArrayKind.REGISTER]) == 1


def test_a_copy_that_every_tile_needs_is_made_in_every_case() -> None:
    sch = tiled(61, 127, rows=(8,), columns=(32,))
    block = sch.get_block("C")
    copy = sch.cache_read(block, "B", scope="local")
    loops = sch.get_loops(block)
    sch.compute_at(copy, loops[2])
    multiplies(sch)


def test_a_fused_consumer_is_in_cases_of_its_own() -> None:
    program = parse_program(MATMUL.replace("-> C: f32[N, M]", "-> D: f32[N, M]") + "    D[i, j] = max(C[i, j], 0)\n",
                            N=61, M=45, K=20)  # fmt: skip
    sch = Schedule(program)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=16)
    sch.reverse_compute_at(sch.get_block("D"), j0)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (61, 20)).astype(np.float32), rng.integers(-4, 5, (20, 45)).astype(np.float32)
    out = np.full((61, 45), np.nan, np.float32)
    build(sch.func, Target.detect())(a, b, out)
    np.testing.assert_array_equal(out, np.maximum(a @ b, 0))


@pytest.mark.parametrize(("n", "m"), [(127, 127), (60, 64), (29, 33), (31, 61)])
def test_whole_tiles_in_strips_that_they_do_not_divide_have_no_condition_inside_the_reduction(n: int, m: int) -> None:
    """Rows end with the strip and with the matrix: of 127 rows in strips of 30, tiles of 8 end at 30 and at 7."""
    sch = Schedule(parse_program(MATMUL, N=n, M=m, K=20))
    i, j, k = sch.get_loops(sch.get_block("C"))
    (i0, strip), (j0, j1) = sch.split(i, [None, 30]), sch.split(j, [None, 16])
    i1, i2 = sch.split(strip, [None, 8])
    sch.reorder(i0, i1, j0, k, i2, j1)
    sch.unroll(i2)
    sch.vectorize(j1, lanes=16)
    kernel = lower(sch.func, AVX512)
    sums = [stmt for stmt, _ in walk(kernel.body) if isinstance(stmt, Loop) and stmt.var.startswith("k")]
    inside = [[s for s, _ in walk(loop.body)] for loop in sums]
    kinds = {array.name: array.kind for array in kernel.arrays}
    whole = [s for body in inside if not any(isinstance(s, If) for s in body) for s in body if isinstance(s, Write)]
    assert {kinds[write.array] for write in whole} == {ArrayKind.REGISTER}
    multiplies(sch)


@pytest.mark.parametrize(("step", "is_apart"), [(1, False), (2, True)])
@pytest.mark.parametrize("n", [60, 64, 72])
def test_whole_tiles_of_lanes_that_are_apart_have_no_condition(n: int, step: int, is_apart: bool) -> None:
    """Under a condition lanes that are near are gathered, and others read with a mask."""
    sch = Schedule(parse_program("program p[N=60, S=2](A: f32[S * N]) -> Y: f32[N]:\n    Y[i] = A[S * i]", N=n, S=step))
    block = sch.get_block("Y")
    _, i1 = sch.split(sch.get_loops(block)[0], [None, 24])
    sch.vectorize(i1, lanes=8)
    sch.annotate(block, "unroll_limit", 3)
    conditions = [stmt.cond for stmt, _ in walk(lower(sch.func, AVX512).body) if isinstance(stmt, If)]
    per_lane = [cond for cond in conditions if any(node == Var("i_1") for node in cond.walk())]
    assert len(conditions) == (0 if n == 72 else 2 if is_apart else 1)
    assert len(per_lane) == (n != 72 and not is_apart)
    a = np.arange(step * n, dtype=np.float32)
    out = np.empty(n, np.float32)
    build(sch.func, Target.detect())(a, out)
    np.testing.assert_array_equal(out, a[::step])
