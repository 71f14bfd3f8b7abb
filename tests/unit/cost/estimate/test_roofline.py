"""What the last tiles and the last tasks cost where tiles do not divide rows: fewer accumulators, and idle threads."""

from __future__ import annotations

from dataclasses import replace
from math import exp2

import numpy as np
import pytest

import metasched as ms
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.roofline import digit_cycles, shuffles
from metasched.cost.expectation import expectation_of, stage_views
from metasched.cost.features import NAMES, features_of
from metasched.dtypes import DType
from tests.support.targets import AVX2, AVX512

PRODUCT = """
program product[N=7, M=32, K=64](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
TARGETS = pytest.mark.parametrize("target", [AVX2, AVX512], ids=["AVX2", "AVX512"])


def cycles(name: str, target: ms.Target, rows: int, tile: int, *, task: int = 0) -> float:
    """Of a product with so many rows, in register tiles of `tile` rows; in tasks of `task` tiles where that is said."""
    lanes = 2 * target.lanes(DType.F32)
    sch = ms.Schedule(ms.parse_program(PRODUCT, N=rows, M=lanes))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1, i2 = sch.split(i, [None, task or 1, tile])
    sch.reorder(i0, i1, k, i2, j)
    if task:
        sch.parallel(i0)
    sch.unroll(i2)
    sch.vectorize(j, lanes=target.lanes(DType.F32))
    sch.annotate(k, "unroll_limit", 64)
    return exp2(float(features_of(sch.func, target)[NAMES.index(name)])) - 1.0


@TARGETS
def test_a_tile_of_a_single_row_waits_for_its_sums(target: ms.Target) -> None:
    """Of 7 rows one is in a tile of its own, with two accumulators; of 61 as well, which matters little."""
    whole, seven, many = (cycles("s0.core_cycles", target, rows, 6) / rows for rows in (6, 7, 61))
    assert seven > 1.2 * whole
    assert whole < many < 1.05 * whole


@TARGETS
def test_tiles_that_divide_the_rows_wait_for_nothing_more(target: ms.Target) -> None:
    few, many = (cycles("s0.core_cycles", target, rows, 6) / rows for rows in (6, 60))
    assert few == pytest.approx(many, rel=0.01)


@TARGETS
def test_the_thread_with_whole_tiles_decides(target: ms.Target) -> None:
    """Of 14 rows one thread has 8 and the other 6: the region ends no sooner than 16 rows would."""
    uneven, even = (cycles("s0.operation_cycles", target, rows, 4, task=2) for rows in (14, 16))
    assert uneven == pytest.approx(even, rel=0.01)


@TARGETS
def test_a_tail_among_many_tasks_is_one_among_many(target: ms.Target) -> None:
    """Of 2 threads one has 32 tasks of 4 rows, whatever the last of the other is."""
    uneven, even = (cycles("s0.operation_cycles", target, rows, 4, task=1) for rows in (253, 256))
    assert uneven == pytest.approx(even, rel=0.01)


@TARGETS
def test_columns_are_loaded_for_rows_that_are_not_there_as_for_those_that_are(target: ms.Target) -> None:
    """A tile of 6 rows where there is one loads as many vectors of columns as one of one, for fewer sums."""
    one, six = (cycles("s0.port_cycles", target, 1, tile) for tile in (1, 6))
    assert six == pytest.approx(one, rel=0.25)


@TARGETS
def test_a_sum_under_a_mask_waits_for_its_neighbour_in_memory(target: ms.Target) -> None:
    """Rows of 3 elements follow one another: the vector of four that is loaded begins in what was just stored."""

    def overhead(columns: int) -> float:
        """Of an operation, on vectors of 3 of so many columns; all rows are added to for each term."""
        sch = ms.Schedule(ms.parse_program(PRODUCT, N=64, M=columns))
        i, j, k = sch.get_loops(sch.get_block("C"))
        j0, j1 = sch.split(j, [None, 3])
        sch.reorder(j0, k, i, j1)
        sch.vectorize(j1, lanes=4)
        cycles = exp2(float(features_of(sch.func, target)[NAMES.index("s0.overhead_cycles")])) - 1.0
        return cycles / (columns / 3 * 64 * 64)

    assert overhead(3) > 4 * overhead(48)


ROWS = """
program rows[N=64, M=48](A: f32[N, M], b: f32[N]) -> C: f32[M]:
    C[j] = sum[i](A[i, j] * b[i])
"""


def cycles_from_afar(width: int, lanes: int) -> float:
    """Of sums across rows of so many elements that no cache of a core holds, for each row."""
    sch = ms.Schedule(ms.parse_program(ROWS, N=1 << 14, M=width))
    j, i = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, j)
    sch.vectorize(j, lanes=lanes)
    return (exp2(float(features_of(sch.func, AVX512)[NAMES.index("s0.l3_cycles")])) - 1.0) / width


def test_lines_take_longer_where_vectors_lie_in_two() -> None:
    """Rows of 50 begin anywhere in a line, of 48 at a line; of 56, half of whose vectors of 8 fill the half of one."""
    assert cycles_from_afar(50, 16) > 1.3 * cycles_from_afar(48, 16)
    assert cycles_from_afar(56, 8) == pytest.approx(cycles_from_afar(48, 16), rel=0.01)


def test_vectors_of_half_a_line_lie_in_two_less_often() -> None:
    assert cycles_from_afar(48, 16) < cycles_from_afar(50, 8) < cycles_from_afar(50, 16)


@TARGETS
def test_long_parallel_loops_end_together(target: ms.Target) -> None:
    """Of two iterations nothing can be taken over from a thread that is late; of many, nearly all that is left."""
    rows = 1 << 14
    many, some, two = (cycles("s0.core_cycles", target, rows, 4, task=rows // (4 * tasks)) for tasks in (256, 16, 2))
    assert many < some < two < 1.15 * many


@TARGETS
def test_short_parallel_loops_are_not_held_up(target: ms.Target) -> None:
    many, two = (cycles("s0.core_cycles", target, 256, 4, task=task) for task in (1, 32))
    assert two == pytest.approx(many, rel=0.01)


def test_one_thread_waits_for_none() -> None:
    many, two = (cycles("s0.core_cycles", AVX512.with_threads(1), 1 << 14, 4, task=task) for task in (16, 1 << 11))
    assert two == pytest.approx(many, rel=0.01)


@pytest.mark.parametrize(("rows", "terms", "is_long"), [(14, 8, False), (21, 8, False), (24, 8, True), (24, 4, False)])
def test_a_long_tile_is_decoded_each_time(rows: int, terms: int, is_long: bool) -> None:
    """Each of a tile's `rows` x `terms` operations has an element to broadcast: two micro-operations."""
    sch = ms.Schedule(ms.parse_program(PRODUCT, N=rows * 8, M=16, K=192))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, rows])
    k0, k1 = sch.split(k, [None, terms])
    sch.reorder(i0, k0, k1, i1, j)
    sch.vectorize(j, lanes=16)
    sch.annotate(sch.get_block("C"), "unroll_limit", 256)
    features = dict(zip(NAMES, features_of(sch.func, AVX512), strict=True))
    slower = exp2(features["s0.port_cycles"] - features["s0.operation_cycles"])
    assert slower == pytest.approx(2.05 / 3.3 * 2 if is_long else 1.05, abs=0.05)


@pytest.mark.parametrize(
    ("rows", "vectors", "is_crowded"), [(7, 4, True), (6, 4, False), (14, 2, False), (5, 5, False)]
)
def test_a_tile_that_lacks_a_register_costs_more(rows: int, vectors: int, is_crowded: bool) -> None:
    """Sums, the vectors and a broadcast: 28 + 4 + 1 are more than 32."""
    sch = ms.Schedule(ms.parse_program(PRODUCT, N=rows * 8, M=16 * vectors, K=192))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, rows])
    sch.reorder(i0, k, i1, j)
    sch.vectorize(j, lanes=16)
    sch.annotate(sch.get_block("C"), "unroll_limit", 32)
    found, without = (features_of(sch.func, AVX512, replace(DEFAULT_CORE, register_shortfall=c)) for c in (0.05, 0.0))
    assert np.array_equal(found, without) != is_crowded


STORED = """
program stored[M=2048, N=512](A: f32[M]) -> B: f32[M, N]:
    out: B[i, j] = A[i] + 1
"""


def cycles_of_storing(order: str) -> float:
    """In tiles of 12 rows by 32 columns, along rows or down columns."""
    sch = ms.Schedule(ms.parse_program(STORED))
    i, j = sch.get_loops(sch.get_block("out"))
    i0, i1 = sch.split(i, [None, 12])
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(*((i0, j0) if order == "rows" else (j0, i0)), i1, j1)
    sch.vectorize(j1, lanes=16)
    small = ms.Target("any", frozenset({"avx", "avx2", "fma", "avx512f"}), 1, 32 << 10, 1 << 20, 64 << 20)
    return float(expectation_of(sch.func, small, DEFAULT_CORE).cycles)


def test_stores_take_longer_where_the_rest_of_a_row_follows_much_later() -> None:
    assert 1.2 < cycles_of_storing("columns") / cycles_of_storing("rows") < 2


SCORES = """
program scores[L=256, H=16](Q: f32[L, H, 64], K: f32[64, L]) -> C: f32[L, L]:
    out: C[i, j] = sum[d](Q[i, 0, d] * K[d, j])
"""


def cycles_of_scores(heads: int) -> float:
    sch = ms.Schedule(ms.parse_program(SCORES, H=heads))
    i, j, d = sch.get_loops(sch.get_block("out"))
    i0, i1 = sch.split(i, [None, 14])
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(j0, i0, d, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=16)
    one = ms.Target("any", frozenset({"avx", "avx2", "fma", "avx512f"}), 1, 48 << 10, 2 << 20, 64 << 20)
    return float(expectation_of(sch.func, one, DEFAULT_CORE).cycles)


def test_rows_of_a_tile_that_meet_in_a_set_come_again_for_each_term() -> None:
    """14 rows in 12 ways: a part of them comes again, not all."""
    assert 1.02 < cycles_of_scores(16) / cycles_of_scores(17) < 1.6


def test_what_is_not_compiled_is_not_chosen() -> None:
    times = {}
    for copies in (64, 8192):
        sch = ms.Schedule(ms.parse_program("program copy[N=65536](A: f32[N]) -> B: f32[N]:\n    b: B[i] = A[i]\n"))
        (i,) = sch.get_loops(sch.get_block("b"))
        for inner in sch.split(i, [None, copies // 16, 16])[1:]:
            sch.unroll(inner)
        times[copies] = expectation_of(sch.func, ms.Target.detect(threads=1), DEFAULT_CORE).cycles
    assert times[8192] > 100 * times[64]


def cycles_of_columns(width: int) -> float:
    """Of reading 64 columns of each of 4,096 rows after another, for each such panel."""
    sch = ms.Schedule(ms.parse_program(ROWS, N=1 << 12, M=width))
    j, i = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, [None, 64])
    sch.reorder(j0, i, j1)
    sch.vectorize(j1, lanes=16)
    return (exp2(float(features_of(sch.func, AVX512)[NAMES.index("s0.l3_cycles")])) - 1.0) / width


def test_short_runs_take_longer_where_rows_are_pages_apart() -> None:
    assert cycles_of_columns(1040) > 1.5 * cycles_of_columns(1008)


def cycles_of_strips(rows: int) -> float:
    """Of sums over so many rows, 4,096 columns wide, in strips of 64, for each row: a strip is in the first cache."""
    sch = ms.Schedule(
        ms.parse_program(
            "program s[R=8](A: f32[512, R, 4096]) -> S: f32[512, 4096]:\n    S[n, j] = sum[i](A[n, i, j])\n", R=rows
        )
    )
    _, j, i = sch.get_loops(sch.get_block("S"))
    _, j1 = sch.split(j, [None, 64])
    sch.reorder(i, j1)
    sch.vectorize(j1, lanes=16)
    return (exp2(float(features_of(sch.func, AVX512)[NAMES.index("s0.l3_cycles")])) - 1.0) / (rows + 2)


def test_prefetchers_follow_a_few_rows_at_a_time() -> None:
    assert cycles_of_strips(48) > 1.5 * cycles_of_strips(16)


def memory_cycles_of_rows(columns: int, rows: int = 1) -> float:
    """Of reading 256 MiB, whose rows are four pages long, so many columns of each row at a time, and so many rows of
    these in turns."""
    sch = ms.Schedule(ms.parse_program("program s(A: f32[16384, 4096]) -> S: f32[4096]:\n    S[j] = sum[i](A[i, j])\n"))
    j, i = sch.get_loops(sch.get_block("S"))
    _, j1, j2 = sch.split(j, [None, columns // 16, 16])
    i0, i1 = sch.split(i, [None, rows])
    sch.reorder(i0, j1, i1, j2)
    sch.vectorize(j2, lanes=16)
    return exp2(float(features_of(sch.func, AVX512)[NAMES.index("s0.memory_cycles")])) - 1.0


def test_parts_of_pages_take_longer_from_memory_than_whole_ones() -> None:
    assert memory_cycles_of_rows(192) > 1.2 * memory_cycles_of_rows(1024)
    assert memory_cycles_of_rows(1024) > memory_cycles_of_rows(2048)


def test_rows_read_in_turns_are_followed_from_memory_without_a_wait_for_each() -> None:
    alone, two, eight = (memory_cycles_of_rows(1024, rows) for rows in (1, 2, 8))
    assert alone > 1.1 * two > 1.2 * eight
    assert memory_cycles_of_rows(2048, 8) == eight


def port_cycles_of_rows(columns: int) -> float:
    """Of a sum of three rows, for each element."""
    text = "program s[M=64](A: f32[66, M]) -> S: f32[64, M]:\n    S[i < 64, j] = A[i, j] + A[i + 1, j] + A[i + 2, j]\n"
    sch = ms.Schedule(ms.parse_program(text, M=columns))
    _, j = sch.get_loops(sch.get_block("S"))
    sch.vectorize(j, lanes=16)
    return (exp2(float(features_of(sch.func, AVX512)[NAMES.index("s0.port_cycles")])) - 1.0) / columns


def test_a_vector_in_two_lines_is_two_loads() -> None:
    assert port_cycles_of_rows(6400) == pytest.approx(port_cycles_of_rows(640))
    assert port_cycles_of_rows(6408) > 1.2 * port_cycles_of_rows(6400)


GROUPS = """
program product(A: u8[16, 64], B: i8[64, 512]) -> C: i32[16, 512]:
    C[i, j] = sum[k < 64](i32(A[i, k]) * i32(B[k, j]))
"""


def test_rows_that_are_packed_in_groups_are_a_few_loads_and_shuffles() -> None:
    """64 lanes read 4 runs of 16 neighbours: 4 loads and half a shuffle for each, not a shuffle for each element."""
    sch = ms.Schedule(ms.parse_program(GROUPS))
    copy = sch.cache_read(sch.get_block("C"), "B")
    sch.transform_layout(copy, "k, j -> j // 16, k // 4, j % 16, k % 4")
    k, j = sch.get_loops(copy)
    k0, k1 = sch.split(k, [None, 4])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(j0, k0, j1, k1)
    sch.vectorize(sch.fuse(j1, k1), lanes=64)
    view = stage_views(sch.func, AVX512)[0]
    assert float(shuffles(view)[0]) == 2.0
    assert float(view.loads_of_one[1][0]) == 4.0


def transposition(tile: tuple[int, int], *, fused: bool) -> ms.Schedule:
    """Of 512 x 512 in tiles, whose rows are iterations of one parallel loop; fused of three, or the one of all tiles
    and rows in a row."""
    sch = ms.Schedule(ms.parse_program("program t[N=512](X: f32[N, N]) -> Y: f32[N, N]:\n    Y[j, i] = X[i, j]\n"))
    j, i = sch.get_loops(sch.get_block("Y"))
    (j0, j1), (i0, i1) = sch.split(j, [None, tile[0]]), sch.split(i, [None, tile[1]])
    sch.reorder(j0, i0, j1, i1)
    sch.parallel(sch.fuse(j0, i0, j1) if fused else j0)
    return sch


@pytest.mark.parametrize("columns", [1, 8])
def test_an_iteration_of_a_fused_loop_finds_out_which_it_is(columns: int) -> None:
    """Two divisions for a row of a tile: much where a row is one element, and little where it is many."""
    views = [stage_views(transposition((8, columns), fused=fused).func, AVX512)[0] for fused in (True, False)]
    fused, apart = (float(digit_cycles(view)[0]) for view in views)
    assert fused == pytest.approx(2.0 * DEFAULT_CORE.fused_digit / columns)
    assert apart == 0.0


def test_lanes_of_two_registers_are_loaded_one_by_one_for_each_of_them() -> None:
    def loads(lanes: int) -> float:
        sch = transposition((1, 32), fused=False)
        sch.vectorize(sch.get_loops(sch.get_block("Y"))[3], lanes=lanes)
        return float(stage_views(sch.func, AVX512)[0].loads_of_one[1][0])

    assert loads(32) == loads(16) == 16.0
    assert loads(8) == 8.0
