"""Finding things in programs."""

from __future__ import annotations

from metasched.ir import query
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule


def test_loops_around_all_of_several_blocks() -> None:
    program = parse_program(
        """program p[N=8](A: f32[N, N]) -> C: f32[N, N]:
    first: B[i, j] = A[i, j] + 1
    second: C[i, j] = B[i, j] * 2
"""
    )
    sch = Schedule(program)
    row, _ = sch.get_loops(sch.get_block("second"))
    sch.compute_at(sch.get_block("first"), row)
    paths = [query.loops_above(sch.func, name) for name in ("first", "second")]
    assert [x.var for x in query.common_loops(*paths)] == [paths[1][0].var]
    assert query.common_loops(paths[0]) == paths[0]
    assert query.common_loops(*paths, ()) == ()
