"""What a tensor intrinsic takes: as lowering makes it, over a population, and beside other instructions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.cost.estimate.tensor_use import tile_loads
from metasched.cost.expectation import Limit, expectation_of
from metasched.cost.features import NAMES, FeatureProgram, features_of
from metasched.target import Target
from tests.support.cross import AMX, AVX2, WIDE, plain

SERVER = plain("sapphirerapids", frozenset((*AVX2, *WIDE, *AMX)))
PRODUCT = """
program product[M=192, N=192, K=128](A: {a}[M, K], B: i8[K // 4, N, 4]) -> C: i32[M, N]:
    dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[k // 4, j, k % 4]))
"""
TRANSPOSED = """
program transposed[M=192, N=192, K=128](A: {a}[M, K], B: i8[N, K]) -> C: i32[M, N]:
    dot: C[i, j] = sum[k](i32(A[i, k]) * i32(B[j, k]))
"""


def by_tiles(sch: ms.Schedule, rows: object, columns: object, *, columns_first: bool = False) -> None:
    """AMX, `rows` x `columns` tiles of sums at a time."""
    i, j, k = sch.get_loops(sch.get_block("dot"))
    i0, i1, i2 = sch.split(i, [None, rows, 16])
    j0, j1, j2 = sch.split(j, [None, columns, 16])
    k0, k1, k2 = sch.split(k, [None, 16, 4])
    inner = (j1, i1) if columns_first else (i1, j1)
    sch.reorder(i0, j0, k0, *inner, i2, j2, k1, k2)
    sch.tensorize(i2, "tile_u8i8_amx")
    for loop in inner:
        sch.unroll(loop)


def by_dots(sch: ms.Schedule, rows: object, columns: object, name: str = "dot_u8i8_vnni") -> None:
    """VNNI, `rows` x `columns` vectors of sums at a time."""
    i, j, k = sch.get_loops(sch.get_block("dot"))
    i0, i1 = sch.split(i, [None, rows])
    j0, j1, j2 = sch.split(j, [None, columns, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, j1, j2, k1)
    sch.tensorize(j2, name)
    sch.unroll(i1)
    sch.unroll(j1)


def by_vectors(sch: ms.Schedule, rows: object, columns: object) -> None:
    i, j, k = sch.get_loops(sch.get_block("dot"))
    i0, i1 = sch.split(i, [None, rows])
    j0, j1, j2 = sch.split(j, [None, columns, 16])
    sch.reorder(i0, j0, k, i1, j1, j2)
    sch.vectorize(j2, lanes=16)
    sch.unroll(i1)
    sch.unroll(j1)


def scheduled(how: object, *sizes: int, text: str = PRODUCT, a: str = "u8", **options: object) -> ms.Schedule:
    sch = ms.Schedule(ms.parse_program(text.format(a=a)))
    how(sch, *sizes, **options)  # type: ignore[operator]
    return sch


def named(sch: ms.Schedule, name: str, target: Target = SERVER) -> float:
    return float(features_of(sch.func, target)[NAMES.index(name)])


def counted(sch: ms.Schedule, name: str) -> float:
    """A feature that is given as a logarithm."""
    return round(float(np.exp2(named(sch, name)) - 1), 2)


# --- as lowering makes it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("columns_first", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (1, 2), (1, 4), (1, 6), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (6, 1)]
)
def test_tiles_are_loaded_as_often_as_they_are_emitted(rows: int, columns: int, columns_first: bool) -> None:
    """The loop over terms has each load of its tiles once; accumulators start from zero."""
    sch = scheduled(by_tiles, rows, columns, columns_first=columns_first)
    emitted = emit(lower(sch.func, SERVER), SERVER).text.count("call void @llvm.x86.tileloadd64(")
    assert round(named(sch, "s0.loads_per_operation") * rows * columns / 16, 3) == emitted
    assert named(sch, "s0.held") == 1
    assert counted(sch, "s0.accumulators") == rows * columns
    assert named(sch, "s0.register_pressure") == pytest.approx(rows * columns / 6)


def test_tiles_that_do_not_fit_go_through_memory() -> None:
    sch = scheduled(by_tiles, 4, 2)
    (tile,) = (array for array in lower(sch.func, SERVER).arrays if array.kind is ArrayKind.TILE)
    assert tile.size == 16 * 16, "one at a time, for one use"
    assert named(sch, "s0.held") == 0
    assert expectation_of(sch.func, SERVER).cycles > 1.2 * expectation_of(scheduled(by_tiles, 3, 2).func, SERVER).cycles


@pytest.mark.parametrize(("rows", "columns"), [(4, 2), (8, 3), (12, 2), (2, 12), (16, 2)])
def test_vectors_of_sums_are_in_registers_where_lowering_has_them(rows: int, columns: int) -> None:
    sch = scheduled(by_dots, rows, columns)
    (registers,) = (a for a in lower(sch.func, SERVER).arrays if a.kind is ArrayKind.REGISTER)
    held = rows * columns <= 31
    assert registers.size == 16 * (rows * columns if held else 1), "one at a time, for one use, where they do not fit"
    assert named(sch, "s0.held") == held
    if held:
        assert counted(sch, "s0.accumulators") == rows * columns
        assert named(sch, "s0.loads_per_operation") == pytest.approx((rows + columns) / (rows * columns))


def test_one_operation_is_one_use() -> None:
    tiles, dots, vectors = (
        scheduled(by_tiles, 2, 2),
        scheduled(by_dots, 8, 3),
        scheduled(by_vectors, 8, 3),
    )
    assert [named(sch, "s0.tensorized") for sch in (tiles, dots, vectors)] == [1, 1, 0]
    assert [counted(sch, "s0.flops_per_operation") for sch in (tiles, dots, vectors)] == [2 * 16**2 * 64, 128, 32]
    assert [counted(sch, "s0.operation_issue") for sch in (tiles, dots)] == [16, 0.5]
    assert [counted(sch, "s0.tile_operations") for sch in (tiles, dots, vectors)] == [4, 24, 24]
    assert [counted(sch, "s0.copies") for sch in (tiles, dots, vectors)] == [4, 24, 24]
    assert [counted(sch, "s0.operation_loads") for sch in (tiles, dots, vectors)] == [32, 2, 9]
    assert len({counted(sch, "s0.flops") for sch in (tiles, dots, vectors)}) == 1


def test_vectors_for_which_there_is_no_register_go_to_memory_and_back() -> None:
    """Twelve vectors of B beside 24 of sums, where two rows take all of them in turn; two beside 24 are no matter."""
    wide, high = scheduled(by_dots, 2, 12), scheduled(by_dots, 12, 2)
    assert expectation_of(wide.func, SERVER).cycles > 1.4 * expectation_of(high.func, SERVER).cycles


def test_operands_that_are_used_once_need_no_register_of_their_own() -> None:
    """Of 24 rows of one vector, each takes its element of A in turn: measured, a use takes 1.2 times that of 12 x 2."""
    tall, high = scheduled(by_dots, 24, 1), scheduled(by_dots, 12, 2)
    assert 1.0 < expectation_of(tall.func, SERVER).cycles / expectation_of(high.func, SERVER).cycles < 1.4


def test_groups_that_lie_apart_are_put_together_one_by_one() -> None:
    near, apart = (scheduled(by_dots, 6, 2, text=text) for text in (PRODUCT, TRANSPOSED))
    assert counted(near, "s0.operation_loads") == 2
    assert counted(apart, "s0.operation_loads") == 17
    assert expectation_of(apart.func, SERVER).cycles > 4 * expectation_of(near.func, SERVER).cycles


def test_operands_that_change_first_are_loaded_again() -> None:
    outer, inner = np.array([1, 3, 2, 6], np.float32), np.array([6, 2, 3, 1], np.float32)
    assert tile_loads(outer, inner, outer * inner).tolist() == [7, 9, 8, 7]
    assert tile_loads(outer, inner, np.full(4, 2, np.float32)).tolist() == [7, 5, 5, 7]


def test_one_accumulator_waits_for_itself() -> None:
    """The sum of bf16 products takes eight cycles, and one starts every second."""
    text = PRODUCT.replace("i8[K // 4, N, 4]", "bf16[K // 2, N, 2]").replace("i32", "f32").replace("4", "2")
    waits = []
    for rows in (1, 2, 4, 6):
        sch = ms.Schedule(ms.parse_program(text.format(a="bf16")))
        sch.annotate(sch.get_block("dot"), "flush_denormals", True)
        i, j, k = sch.get_loops(sch.get_block("dot"))
        i0, i1 = sch.split(i, [None, rows])
        j0, j1 = sch.split(j, [None, 16])
        k0, k1 = sch.split(k, [None, 2])
        sch.reorder(i0, j0, k0, i1, j1, k1)
        sch.tensorize(j1, "dot_bf16_avx512")
        sch.unroll(i1)
        parts = expectation_of(sch.func, SERVER).parts
        waits.append(parts[Limit.LATENCY] > 0)
    assert waits == [True, True, False, False]


# --- over a population -------------------------------------------------------------------------------------


def free_tiles(sch: ms.Schedule) -> None:
    i, j, _ = sch.get_loops(sch.get_block("dot"))
    _, rows = sch.sample_partitioned_tile(i, 2, 1, 16)
    _, columns = sch.sample_partitioned_tile(j, 2, 1, 16)
    by_tiles(sch, rows // 16, columns // 16)


def free_dots(sch: ms.Schedule) -> None:
    i, j, _ = sch.get_loops(sch.get_block("dot"))
    _, rows = sch.sample_tile(i, parts=2)
    _, columns = sch.sample_partitioned_tile(j, 2, 1, 16)
    by_dots(sch, rows, columns // 16)


@cache
def sketch(how: object) -> ms.Sketch:
    (found,) = ms.space(ms.parse_program(PRODUCT.format(a="u8")), module=how)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("how", [free_tiles, free_dots])
def test_a_row_has_the_features_of_the_program_with_its_numbers(how: object) -> None:
    found, rng = sketch(how), np.random.default_rng(0)
    rows = found.repair(found.sample(rng, 40))
    rows = rows[found.mask(rows)][:8]
    assert len(np.unique(rows, axis=0)) > 3
    many = FeatureProgram(found.func, found.columns, SERVER)(rows)
    for row, features in zip(rows, many, strict=True):
        concrete = features_of(found.trace_of(row).apply_to(found.program).func, SERVER)
        np.testing.assert_allclose(features, concrete, rtol=1e-4, atol=1e-4)


# --- beside other instructions -----------------------------------------------------------------------------


def test_efficiency_is_a_share_of_what_the_cpu_can_do_with_such_operands() -> None:
    tiles, vectors = scheduled(by_tiles, 2, 2), scheduled(by_vectors, 8, 3)
    least = 192 * 192 * 128 / (16 * 16 * 64) * 16 / SERVER.threads
    for sch in (tiles, vectors):
        found = expectation_of(sch.func, SERVER)
        assert found.efficiency == pytest.approx(least / found.cycles)
        assert found.efficiency == pytest.approx(named(sch, "all.efficiency"), rel=1e-4)
    slower = expectation_of(vectors.func, SERVER.without(AMX))
    assert slower.efficiency == pytest.approx(8 * expectation_of(vectors.func, SERVER).efficiency)  # VNNI: 128 a cycle
    assert 0 < expectation_of(vectors.func, SERVER).efficiency < 0.1
    assert "of the peak arithmetic" in str(slower)


def test_padding_of_an_operand_leaves_the_peak_as_it_is() -> None:
    """So that it is the same for all candidates of a task, whose efficiency says which one is faster."""
    text = PRODUCT.replace("i32(A[i, k])", "i32(A[i, k] if i + k > 3 else {a}(0))")
    plain_, padded = (ms.Schedule(ms.parse_program(t.format(a="u8"))).func for t in (PRODUCT, text))
    ratios = [expectation_of(f, SERVER).efficiency * expectation_of(f, SERVER).cycles for f in (plain_, padded)]
    assert ratios[0] == pytest.approx(ratios[1])
