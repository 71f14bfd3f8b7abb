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


def test_the_loops_that_iterations_of_each_kind_use() -> None:
    """One that was fused of both kinds is used by both."""
    program = parse_program("program p[N=4, K=6](A: f32[N, K]) -> B: f32[N]:\n    s: B[i] = sum[k](A[i, k])\n")
    sch = Schedule(program)
    block = sch.get_block("s")
    i, k = sch.get_loops(block)
    outer, _ = sch.split(k, [None, 3])
    found, names = query.find_block(sch.func, "s"), [loop.var for loop in query.loops(sch.func)]
    assert query.spatial_loops(found) == {names[0]}
    assert query.reduced_loops(found) == set(names[1:])
    sch.fuse(i, outer)
    found, (both, inner) = query.find_block(sch.func, "s"), [loop.var for loop in query.loops(sch.func)]
    assert query.spatial_loops(found) == {both}
    assert query.reduced_loops(found) == {both, inner}


def test_variables_of_a_statement() -> None:
    program = parse_program("program scaled(s: i64, X: f32[16]) -> Y: f32[16]:\n    Y[i] = X[i] * f32(s)\n")
    block = query.blocks(Schedule(program).func)[0]
    own = {it.name for it in block.iters}
    assert query.variables(block) == {"s", *own, *(loop.var for loop in query.loops(Schedule(program).func))}
