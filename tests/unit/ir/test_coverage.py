"""Instances of small programs, counted."""

from __future__ import annotations

import metasched as ms
from metasched.ir.coverage import coverage_violations

FAR = 1442695040888963407


def test_places_beyond_64_bits_are_counted() -> None:
    """A tile of 16 where there is one element: its last place is 15 times as far as an index may be."""
    p = ms.parse_program(
        f"program far(X: i64[3]) -> Y: i64[3, 1]:\n"
        f"    Y[i < 3, j < 1] = X[j * {FAR}] if j * {FAR} >= 0 and j * {FAR} < 3 else 5\n"
    )
    schedule = ms.Schedule(p)
    block = schedule.get_block("Y")
    _, j = schedule.get_loops(block)
    outer, _ = schedule.split(j, [None, 16])
    schedule.decompose_padding(block, outer)
    assert list(coverage_violations(schedule.func)) == []
