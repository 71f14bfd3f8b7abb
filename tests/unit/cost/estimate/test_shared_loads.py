"""What copies of unrolled code read in common is loaded once, as their machine code does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metasched as ms
from metasched.cost.estimate.shared_loads import share_of_tile_loads, shares_of_loads
from metasched.cost.estimate.statement import StatementView
from metasched.cost.expectation import stage_views
from tests.support.cross import for_sapphire_rapids
from tests.support.targets import AVX512

PRODUCT = """
program product(A: f32[64, 48], B: f32[48, 128]) -> C: f32[64, 128]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def tile_in_memory(rows: int, columns: int, limit: int) -> ms.Schedule:
    """A product whose tiles of rows by columns are unrolled up to a limit; large ones stay in memory."""
    sch = ms.Schedule(ms.parse_program(PRODUCT))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(block, "unroll_limit", limit)
    return sch


def tiles_side_by_side(terms: int, tiles: int) -> ms.Schedule:
    """A product in registers: of each row so many vectors one after another, of each so many terms, all unrolled."""
    sch = ms.Schedule(ms.parse_program(PRODUCT))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (j0, j1, j2), (k0, k1) = sch.split(j, [None, tiles, 16]), sch.split(k, [None, terms])
    sch.reorder(j0, k0, i, j1, k1, j2)
    sch.vectorize(j2, lanes=16)
    sch.annotate(block, "unroll_limit", tiles * terms)
    return sch


def view_of(sch: ms.Schedule) -> StatementView:
    return stage_views(sch.func, AVX512)[0]


def test_copies_of_sums_in_memory_share_what_they_read() -> None:
    """16 rows of 4 vectors: each element of A serves 4 operations, each vector of B 16."""
    shares = shares_of_loads(view_of(tile_in_memory(16, 64, 512)))
    assert shares[:, 0] == pytest.approx([1 / 4, 1 / 16])


def test_what_takes_more_registers_than_are_free_is_shared_inside_alone() -> None:
    """8 rows of 8 vectors stay in registers under a row; 32 elements of A do not, and serve the vectors of a row."""
    shares = shares_of_loads(view_of(tile_in_memory(32, 128, 512)))
    assert shares[:, 0] == pytest.approx([1 / 8, 1 / 32])


def test_loops_share_nothing_from_one_iteration_to_the_next() -> None:
    assert np.all(shares_of_loads(view_of(tile_in_memory(16, 64, 1))) == 1.0)


def test_tiles_in_registers_share_what_they_read() -> None:
    """Of 6 terms by 4 vectors: 6 elements of A, and 24 vectors of B."""
    view = view_of(tiles_side_by_side(6, 4))
    assert shares_of_loads(view)[:, 0] == pytest.approx([1 / 4, 1.0])
    assert float(share_of_tile_loads(view)[0]) == pytest.approx((6 + 24) / 48)


def test_machine_code_has_the_loads_that_are_shared() -> None:
    """An element of A for each term is put into all lanes once for all vectors of a row."""
    text = for_sapphire_rapids(tiles_side_by_side(6, 4).func)
    assert len(re.findall(r"vfmadd\w+ps", text)) == 24
    assert len(re.findall(r"vbroadcastss", text)) == 6


def test_what_is_gathered_is_loaded_by_each_copy() -> None:
    text = PRODUCT.replace("B: f32[48, 128]", "B: f32[128, 48]").replace("B[k, j]", "B[j, k]")
    sch = ms.Schedule(ms.parse_program(text))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 64])
    sch.reorder(i0, k, i1, j)
    sch.vectorize(j, lanes=16)
    sch.annotate(block, "unroll_limit", 512)
    assert shares_of_loads(view_of(sch))[1, 0] == 1.0


WINDOWS = """
program windows(X: f32[34, 64], K: f32[3, 64]) -> Y: f32[32, 64]:
    Y[i < 32, j] = sum[r < 3](X[i + r, j] * K[r, j])
"""


def test_what_windows_share_around_a_tile_in_registers_is_loaded_by_each_copy() -> None:
    """Four sums in registers, all terms unrolled: they read 6 rows, and load 12."""
    sch = ms.Schedule(ms.parse_program(WINDOWS))
    block = sch.get_block("Y")
    i, j, r = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 16])
    sch.reorder(i0, j0, r, i1, j1)
    sch.vectorize(j1, lanes=16)
    sch.annotate(block, "unroll_limit", 12)
    assert np.all(shares_of_loads(view_of(sch)) == 1.0)


def test_all_copies_share_a_number_alone() -> None:
    sch = ms.Schedule(ms.parse_program("program s(A: f32[64], F: f32[]) -> C: f32[64]:\n    C[i] = A[i] * F[]\n"))
    block = sch.get_block("C")
    _, i1 = sch.split(sch.get_loops(block)[0], [None, 8])
    sch.unroll(i1)
    assert shares_of_loads(view_of(sch))[:, 0] == pytest.approx([1.0, 1 / 8])


def test_what_reads_nothing_shares_nothing() -> None:
    program = ms.parse_program("program r[N=64, K=8]() -> C: f32[N]:\n    C[i] = sum[k < K](f32(i*k))")
    view = view_of(ms.Schedule(program))
    assert shares_of_loads(view).shape == (0, 1)
    assert float(share_of_tile_loads(view)[0]) == 1.0
