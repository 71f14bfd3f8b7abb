"""What intermediates take in memory and in registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.compiler.lower.nest import Many, NestLoop
from metasched.compiler.lower.storage import Budget, Storage, array_indices, lay_out_in_registers, shrink_to_use
from metasched.dtypes import DType
from metasched.ir.integers.affine import ZERO, as_int
from metasched.ir.nodes import Expr, Load, LoopKind, Var
from metasched.reference.execution import reference
from metasched.target import Target
from tests.support.targets import AVX512

NOTHING = Many(())
ROW, COLUMN, BLOCK = Var("i"), Var("j"), Var("r")


def storage(*shape: int, kind: ArrayKind = ArrayKind.THREAD) -> Storage:
    return Storage("T", DType.F32, shape, (ZERO,) * len(shape), kind, tuple(range(len(shape))))


def rows(extent: int, *, unroll: bool = True, kind: LoopKind = LoopKind.SERIAL) -> NestLoop:
    return NestLoop("i", extent, NOTHING, kind, unroll=unroll)


def lanes(var: str, extent: int, count: int = 16) -> NestLoop:
    return NestLoop(var, extent, NOTHING, LoopKind.VECTORIZED, count, unroll=True)


def test_rows_are_as_far_apart_as_their_alignment_says_and_no_further() -> None:
    aligned = replace(storage(3, 5, 8), alignments=((1, 16, 4),))
    assert storage(3, 5, 8).strides == (40, 8, 1)
    assert aligned.strides == (100, 20, 1), "20 is the first number from 8 on that is 4 modulo 16"
    assert aligned.size == 300


def test_a_callers_array_ends_with_its_last_element() -> None:
    """What lies behind the last row up to where another would begin is not the caller's to give."""
    padded = replace(storage(3, 8, kind=ArrayKind.INPUT), alignments=((0, 16, 0),))
    assert padded.strides == (16, 1)
    assert padded.size == 2 * 16 + 8
    assert replace(padded, kind=ArrayKind.THREAD).size == 3 * 16


def test_an_array_has_the_elements_that_are_used_while_its_loops_run() -> None:
    inside = {"i": rows(4), "j": NestLoop("j", 8, NOTHING)}
    tile = shrink_to_use(
        storage(64, 64), [((BLOCK * 4 + ROW, COLUMN), inside), ((BLOCK * 4 + ROW + 2, COLUMN), inside)]
    )
    assert tile.shape == (6, 8)
    assert array_indices(tile, (BLOCK * 4 + ROW + 2, COLUMN)) == (ROW + 2, COLUMN)


def test_a_dimension_that_is_used_in_no_known_part_stays_whole() -> None:
    inside = {"i": rows(4)}
    data = Load("P", (ROW,), DType.I64)
    assert shrink_to_use(storage(64, 32), [((ROW, data), inside)]).shape == (4, 32)


def test_an_element_of_a_window_is_at_its_index_modulo_the_window() -> None:
    folded = replace(storage(3, 8), fold=(0, 3))
    row, column = array_indices(folded, (BLOCK, COLUMN))
    assert row == BLOCK % 3
    assert column == COLUMN


def test_vectors_lie_along_the_last_dimension_in_whole_registers() -> None:
    loops = {"i": rows(3), "j": lanes("j", 20)}
    found = lay_out_in_registers(storage(20, 3), [((COLUMN, ROW), loops)], AVX512)
    assert found is not None
    laid_out, count = found
    assert (laid_out.shape, laid_out.axes, laid_out.kind) == ((3, 32), (1, 0), ArrayKind.REGISTER)
    assert count == 6


def test_rows_that_a_stride_leaves_out_take_no_registers() -> None:
    loops = {"i": rows(3), "j": lanes("j", 16)}
    found = lay_out_in_registers(storage(9, 16), [((ROW * 4, COLUMN), loops)], AVX512)
    assert found is not None
    assert found[1] == 3


def test_rows_of_a_tile_that_are_not_there_take_no_registers() -> None:
    """A tile of two times three rows, of an array of four: guards leave the others out."""
    loops = {"n": NestLoop("n", 2, NOTHING, unroll=True), "i": rows(3), "j": lanes("j", 48)}
    found = lay_out_in_registers(storage(4, 48), [((Var("n") * 3 + ROW, COLUMN), loops)], AVX512)
    assert found is not None
    assert (found[0].shape, found[1]) == ((6, 48), 12)


@pytest.mark.parametrize(
    ("indices", "loops"),
    [
        ((ROW, COLUMN), {"i": rows(4, unroll=False), "j": lanes("j", 16)}),
        ((ROW, COLUMN), {"i": rows(4, kind=LoopKind.PARALLEL), "j": lanes("j", 16)}),
        ((Load("P", (ROW,), DType.I64), COLUMN), {"i": rows(4), "j": lanes("j", 16)}),
        ((ROW, COLUMN * 2), {"i": rows(4), "j": lanes("j", 16)}),
        ((COLUMN, COLUMN), {"i": rows(4), "j": lanes("j", 16)}),
    ],
    ids=["not unrolled", "parallel", "data", "every other lane", "a diagonal"],
)
def test_what_cannot_be_in_registers(indices: tuple[Expr, ...], loops: dict[str, NestLoop]) -> None:
    assert lay_out_in_registers(storage(64, 64), [(indices, loops)], AVX512) is None


def test_accesses_agree_on_how_vectors_lie() -> None:
    across, along = {"i": lanes("i", 16), "j": NestLoop("j", 16, NOTHING, unroll=True)}, {"i": rows(16)}
    along["j"] = lanes("j", 16)
    assert lay_out_in_registers(storage(16, 16), [((ROW, COLUMN), along)], AVX512) is not None
    assert lay_out_in_registers(storage(16, 16), [((ROW, COLUMN), along), ((ROW, COLUMN), across)], AVX512) is None
    beside = ((ROW, COLUMN + 1), along)
    assert lay_out_in_registers(storage(16, 32), [((ROW, COLUMN), along), beside], AVX512) is None


def test_registers_count_where_their_loops_are_around_or_inside() -> None:
    budget = Budget(32)
    outer, inner, other = rows(4), NestLoop("j", 4, NOTHING), NestLoop("k", 4, NOTHING)
    budget.take_registers((outer, inner), 20)
    assert budget.remaining_registers((outer,)) == 12, "they live inside"
    assert budget.remaining_registers((outer, inner)) == budget.remaining_registers((outer, inner, other)) == 12
    assert budget.remaining_registers((other,)) == 32, "another nest runs before or after"
    assert budget.used_registers((outer,)) == 20


def test_an_array_without_dimensions_is_one_element() -> None:
    assert storage().size == 1


# --- registers of rows that are not whole vectors

FOLLOWED = """
program followed[M=7, N=37, K=5](A: f32[M, K], B: f32[K, N]) -> Y: f32[M, N]:
    T: f32[M, N]
    T[i, j] = sum[k](A[i, k] * B[k, j])
    Y[i, j] = T[i, j] * 2.0
"""
TRIANGLE = """
program triangle[M=7, N=37](A: f32[M, N], B: f32[N]) -> Y: f32[M, N]:
    T: f32[M, N]
    T[i, j] = sum[k < N](A[i, k] * B[j] if j <= k else 0.0)
    Y[i, j] = T[i, j] * 2.0
"""


def in_tiles(text: str) -> ms.Schedule:
    """A sum in tiles of 4 by 16 in registers, which what follows it reads there."""
    schedule = ms.Schedule(ms.parse_program(text))
    block = schedule.get_block("T")
    i, j, k = schedule.get_loops(block)
    (i0, i1), (j0, j1) = schedule.split(i, [None, 4]), schedule.split(j, [None, 16])
    schedule.reorder(i0, j0, k, i1, j1)
    schedule.reverse_compute_at(schedule.get_block("Y"), j0)
    for name in ("T", "Y"):
        schedule.vectorize(schedule.get_loops(schedule.get_block(name))[-1], lanes=16)
        schedule.annotate(schedule.get_block(name), "unroll_limit", 64)
    return schedule


@pytest.mark.parametrize("text", [FOLLOWED, TRIANGLE])
def test_registers_of_partial_rows_are_written_as_whole_vectors(text: str) -> None:
    """Lanes that had to be kept would be carried from tile to tile, and sums spilled to make room for them."""
    schedule, target = in_tiles(text), Target.detect()
    (sums,) = (array for array in lower(schedule.func, target).arrays if array.name == "T")
    assert (sums.kind, sums.spare_lanes) == (ArrayKind.REGISTER, True)
    rng = np.random.default_rng(0)
    shapes = [[as_int(extent) for extent in buffer.shape] for buffer in schedule.func.inputs]
    given = [rng.random(shape, np.float32) for shape in shapes]
    found = ms.compile(ms.parse_program(text), trace=schedule.trace, target=target)(*given)
    assert np.allclose(found, reference(ms.parse_program(text))(*given), rtol=1e-5)
