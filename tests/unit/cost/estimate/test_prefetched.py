"""Lines that prefetchers do not bring in time: parts of rows pages apart, in turns, and short rows in unrolled code."""

from __future__ import annotations

from math import exp2

import pytest

import metasched as ms
from metasched.cost.features import NAMES, features_of
from tests.support.targets import AVX512


def waits_of_panels(rows: int, *, ahead: int = 0) -> float:
    """The share of a product's time that waits for lines: tiles of so many rows by 32 of 384 columns, four of which are
    used for several tiles while the second cache has them."""
    sch = ms.Schedule(ms.operator("matmul_nn", M=4 * rows, N=384, K=1024))
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1, j2 = sch.split(j, [None, 4, 32])
    i0, i1 = sch.split(i, [None, rows])
    sch.reorder(j0, i0, j1, k, i1, j2)
    sch.unroll(i1)
    sch.vectorize(j2, lanes=16)
    sch.annotate(k, "unroll_limit", 64)
    sch.annotate(k, "prefetch", ahead)
    features = features_of(sch.func, AVX512)
    waits, all_of_it = (exp2(float(features[NAMES.index(f"all.{name}_cycles")])) for name in ("waiting", "total"))
    return (waits - 1.0) / all_of_it


def test_lines_of_short_rows_are_waited_for_unless_they_are_asked_for() -> None:
    assert waits_of_panels(12) > 0.03
    assert waits_of_panels(12, ahead=8) == 0


def test_a_core_sees_lines_ahead_where_few_operations_are_between() -> None:
    assert waits_of_panels(1) == 0


def cycles_of_vector_times_matrix(level: str, columns: int, rows: int, part: int, terms: int) -> float:
    """What a vector of `rows` times a matrix waits for at a level: parts of `part` columns of `terms` rows in turns."""
    sch = ms.Schedule(ms.operator("matmul_nn", M=1, N=columns, K=rows))
    i, j, k = sch.get_loops(sch.get_block("C"))
    j1, j2 = sch.split(j, [None, part])
    k0, k1 = sch.split(k, [None, terms])
    sch.reorder(i, k0, j1, k1, j2)
    sch.vectorize(j2, lanes=16)
    return exp2(float(features_of(sch.func, AVX512)[NAMES.index(f"all.{level}_cycles")])) - 1.0


@pytest.mark.parametrize(("level", "rows"), [("memory", 1 << 14), ("l3", 1 << 10)])
def test_rows_of_pages_in_turns_come_slowly_where_they_share_the_places_of_a_cache(level: str, rows: int) -> None:
    """Rows of 16 KB are at the same places of a cache, those of 16 KB and 64 bytes are not."""
    few, some, many = (cycles_of_vector_times_matrix(level, 4096, rows, 32, n) for n in (8, 32, 128))
    assert 1.5 * few < some < many
    apart = cycles_of_vector_times_matrix(level, 4112, rows, 16, 32)
    assert apart < 0.7 * cycles_of_vector_times_matrix(level, 4096, rows, 16, 32)


def test_the_longer_a_part_of_a_row_the_sooner_it_comes() -> None:
    short, long = (cycles_of_vector_times_matrix("memory", 4096, 1 << 14, part, 128) for part in (16, 64))
    assert short > 1.5 * long


def cycles_of_packed_matrix(panels: int, terms: int) -> float:
    """What a vector times a matrix of panels, each in one piece, waits for memory: so many in turns, `terms` rows of
    each."""
    head = "program product(A: f32[1, 4096], const B: f32[4096, 4096]) -> C: f32[1, 4096]:"
    sch = ms.Schedule(ms.parse_program(f"{head}\n    C[i, j] = sum[k < 4096](A[i, k] * B[k, j])"))
    packed = sch.cache_read(sch.get_block("C"), "B")
    sch.transform_layout(packed, "k, j -> j//64, k, j%64")
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1, j2 = sch.split(j, [None, panels, 64])
    k0, k1 = sch.split(k, [None, terms])
    sch.reorder(i, j0, k0, j1, k1, j2)
    sch.vectorize(j2, lanes=16)
    return exp2(float(features_of(sch.func, AVX512)[NAMES.index("all.memory_cycles")])) - 1.0


def test_parts_of_panels_in_turns_are_begun_each_and_a_panel_once() -> None:
    whole = cycles_of_packed_matrix(1, 4096)
    assert cycles_of_packed_matrix(1, 32) == pytest.approx(whole), "the next part goes on where the one before ended"
    long, short = cycles_of_packed_matrix(16, 256), cycles_of_packed_matrix(16, 28)
    assert 1.05 * whole < long < 0.95 * short
