"""What a loop asks for some iterations ahead."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from tests.support.targets import AVX512

PRODUCT = """
program product[N=8, M=32, K=64](A: f32[N, K], B: f32[K, M]) -> Y: f32[N, M]:
    Y[i, j] = sum[k](A[i, k] * B[k, j])
"""


@pytest.mark.parametrize(("terms", "asked"), [(1, ["B"]), (8, ["B"]), (16, ["A", "B"])])
def test_what_an_iteration_moves_by_less_than_a_line_is_not_asked_for(terms: int, asked: list[str]) -> None:
    """The hardware follows it; to ask for each row of A in each iteration takes as many loads as its products."""
    sch = ms.Schedule(ms.parse_program(PRODUCT))
    i, j, k = sch.get_loops(sch.get_block("Y"))
    around, inside = sch.split(k, [None, terms])
    sch.reorder(around, i, inside, j)
    sch.vectorize(j, lanes=16)
    sch.annotate(around, "prefetch", 2)
    code = print_kernel(lower(sch.func, AVX512))
    assert [name for name in "AB" if f"prefetch {name}[" in code] == asked


def test_what_data_places_is_not_asked_for() -> None:
    """Where a sum goes is known when its term is read, and what is read itself is known before."""
    p = ms.parse_program(
        "program sums(Z: i64[64, 700], A: i64[64, 700], B: i64[300]) -> N: i64[64, 7, 300]:\n"
        "    N[i, v < 7, c] = sum[j if v == Z[i, j]](A[i, j] * B[c])\n"
    )
    schedule = ms.Schedule(p)
    i, v, c, j = schedule.get_loops(schedule.get_block("N"))
    j0, j1 = schedule.split(j, [None, 10])
    schedule.reorder(i, c, j0, j1, v)
    schedule.scatter(v)
    schedule.annotate(i, "prefetch", 1)
    asked = [line for line in print_kernel(lower(schedule.func, AVX512)).splitlines() if "prefetch" in line]
    assert {line.split()[1].split("[")[0] for line in asked} == {"A", "Z"}
