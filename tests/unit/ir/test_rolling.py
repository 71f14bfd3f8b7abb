"""What estimates make of buffers that keep a window of rows."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.rolling import amortise_rolling

BLUR = """
program blur(X: f32[24, 64]) -> Y: f32[18, 64]:
    A: f32[24, 64]
    A[h, w] = X[h, w] * X[h, w]
    Y[h, w] = sum[r < 7](A[h + r, w])
"""


@pytest.mark.parametrize(("strip", "rows"), [(18, 1), (9, 2), (3, 3), (1, 7)])
def test_the_first_window_of_a_strip_counts(strip: int, rows: int) -> None:
    sch = ms.Schedule(ms.parse_program(BLUR))
    a, y = sch.get_block("A"), sch.get_block("Y")
    outer, within = sch.split(sch.get_loops(y)[0], [None, strip])
    sch.compute_at(a, within)
    sch.store_at(a, outer)
    loop = query.loops_above(amortise_rolling(sch.func), "A")[2]
    assert as_int(loop.extent) == rows
