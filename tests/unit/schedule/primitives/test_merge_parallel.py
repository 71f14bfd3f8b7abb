from __future__ import annotations

import numpy as np
import pytest

from metasched.ir import query
from metasched.ir.validate import validate
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from metasched.schedule.trace import Schedule, Trace
from metasched.schedule.values import LoopRV
from tests.support.programs import DENSE_RELU, ROWS, STENCIL, TRANSPOSED
from tests.support.schedules import checked, fails, lines, loops_of, schedule
from tests.support.structural import body

# A sum over everything is between nests that have rows for threads.
TOTAL = """
program total[N=6, K=4](A: f32[N, K]) -> D: f32[N, K]:
    rows:  S[i] = sum[k](A[i, k])
    whole: T[] = sum[i](S[i])
    apart: C[i, k] = A[i, k] - S[i]
    out:   D[i, k] = C[N - 1 - i, k] * T[]
"""
BREAKS = "a shared parallel region would break up"


def outermost(sch: Schedule, *blocks: str) -> list[LoopRV]:
    return [loops_of(sch, block)[0] for block in blocks]


def parallel(sch: Schedule, *blocks: str) -> list[LoopRV]:
    found = outermost(sch, *blocks)
    for loop in found:
        sch.parallel(loop)
    return found


def regions(sch: Schedule) -> dict[str, str]:
    """The region of each loop that shares one."""
    return {loop.var: loop.region for loop in query.loops(sch.func) if loop.region}


def test_two_nests() -> None:
    sch = schedule()
    sch.merge_parallel(*parallel(sch, "dense", "relu"))
    assert (
        body(sch.func)
        == """
temp C: f32[11, 9]
parallel(region) i in 11:
    for j, k in grid(9, 7):
        dense: C[i, j] += A[i, k] * B[k, j]  init 0.0
parallel(region) i_relu in 11:
    for j_relu in 9:
        relu: D[i, j] = max(C[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )
    assert lines(sch.trace)[-1] == "merge_parallel(i, i_relu)"
    checked(sch)


def test_what_stands_between_is_run_by_one_thread() -> None:
    sch = schedule(TOTAL)
    sch.merge_parallel(*parallel(sch, "rows", "apart", "out"))
    assert set(regions(sch)) == {"i", "i_apart", "i_out"}
    checked(sch)


def test_a_loop_between_joins_the_region_when_it_becomes_parallel() -> None:
    sch = schedule(TRANSPOSED)
    sch.merge_parallel(*parallel(sch, "plus", "all"))
    sch.parallel(loops_of(sch, "twice")[0])
    assert set(regions(sch).values()) == {"region"}
    assert len(regions(sch)) == 3
    checked(sch)


def test_a_loop_inside_what_one_thread_runs() -> None:
    sch = schedule(TRANSPOSED)
    sch.merge_parallel(*parallel(sch, "plus", "all"))
    inside = "parallel loop `j_twice` is inside a phase of parallel region `region` that one thread runs"
    with fails(f"parallel: {BREAKS}: {inside}", "parallel before merge_parallel"):
        sch.parallel(loops_of(sch, "twice")[1])
    checked(sch)


def test_regions_become_one() -> None:
    sch = schedule(TRANSPOSED)
    plus, twice, three, all_ = parallel(sch, "plus", "twice", "three", "all")
    sch.merge_parallel(plus, twice)
    sch.merge_parallel(three, all_)
    assert list(regions(sch).values()) == ["region", "region", "region_1", "region_1"]
    sch.merge_parallel(twice, three)
    assert list(regions(sch).values()) == ["region"] * 4
    checked(sch)


def test_inside_a_serial_loop() -> None:
    """Of the columns one after another, the rows on all threads."""
    text = """
    program columns[N=6, M=3](A: f32[N, M]) -> C: f32[N, M]:
        twice: B[i, j] = A[i, j] * 2
        turn:  C[i, j] = B[N - 1 - i, j] + 1
    """
    sch = schedule(text)
    i, j = loops_of(sch, "turn")
    sch.reorder(j, i)
    sch.compute_at(sch.get_block("twice"), j)
    twice = loops_of(sch, "twice")[1]
    sch.parallel(i)
    sch.parallel(twice)
    sch.merge_parallel(twice, i)
    checked(sch)


def test_with_free_sizes() -> None:
    sch = schedule(handler=Symbolic(DrawFromPrior(0)))
    found = []
    for block in ("dense", "relu"):
        i = loops_of(sch, block)[0]
        outer, _ = sch.split(i, sch.sample_tile(i))
        sch.parallel(outer)
        found.append(outer)
    sch.merge_parallel(*found)
    assert not sch.context.constraints
    assert len(regions(sch)) == 2


def test_mutated_and_in_python_form() -> None:
    sch = schedule()
    found = []
    for block in ("dense", "relu"):
        i = loops_of(sch, block)[0]
        outer, _ = sch.split(i, sch.sample_tile(i))
        sch.parallel(outer)
        found.append(outer)
    sch.merge_parallel(*found)
    checked(sch)
    assert Trace.from_python(sch.trace.as_python()) == sch.trace
    changed = sch.trace.mutate(np.random.default_rng(0))
    assert changed != sch.trace
    checked(changed.apply_to(sch.program))


# --- later steps -----------------------------------------------------------------------------------------


def test_a_producer_moved_out_of_the_region() -> None:
    """The region of the other two stays; of a single one left, only the name."""
    sch = schedule(ROWS)
    most, total, out = parallel(sch, "most", "total", "out")
    sch.merge_parallel(most, total, out)
    sch.reverse_compute_at(sch.get_block("out"), total)
    validate(sch.func)
    assert list(regions(sch)) == ["i", "i_total"]
    checked(sch)


def test_copies_of_operands_between() -> None:
    sch = schedule(STENCIL)
    sch.merge_parallel(*parallel(sch, "double", "sum3"))
    sch.cache_read(sch.get_block("sum3"), "B", scope="global")
    validate(sch.func)
    checked(sch)


def test_the_start_of_a_reduction_beside_it() -> None:
    sch = schedule(DENSE_RELU)
    dense, relu = parallel(sch, "dense", "relu")
    sch.merge_parallel(dense, relu)
    sch.decompose_reduction(sch.get_block("dense"), dense)
    validate(sch.func)
    assert len(regions(sch)) == 3
    checked(sch)


def test_the_start_of_a_reduction_around_the_region() -> None:
    text = """
    program steps[N=6, M=3, K=2](A: f32[N, K], B: f32[M, K]) -> (C: f32[N], D: f32[M]):
        first:  C[i] = sum[k](A[i, k])
        second: D[j] = sum[k](B[j, k])
    """
    sch = schedule(text)
    first, second = parallel(sch, "first", "second")
    sch.merge_parallel(first, second)
    sch.decompose_reduction(sch.get_block("first"), loops_of(sch, "first")[1])
    validate(sch.func)
    assert len(regions(sch)) == 2
    checked(sch)


def test_a_part_of_the_loop_around_has_a_region_of_its_own() -> None:
    text = """
    program columns[N=6, M=5](A: f32[N, M]) -> C: f32[N, M]:
        twice: B[i, j] = A[i, j] * 2
        turn:  C[i, j] = B[N - 1 - i, j] + 1
    """
    sch = schedule(text)
    i, j = loops_of(sch, "turn")
    sch.reorder(j, i)
    sch.compute_at(sch.get_block("twice"), j)
    twice = loops_of(sch, "twice")[1]
    sch.parallel(i)
    sch.parallel(twice)
    sch.merge_parallel(twice, i)
    sch.loop_partition(j, [2])
    validate(sch.func)
    assert sorted(regions(sch).values()) == ["region", "region", "region_tail", "region_tail"]
    checked(sch)


def test_moved_out_of_its_region() -> None:
    sch = schedule()
    dense, relu = parallel(sch, "dense", "relu")
    sch.merge_parallel(dense, relu)
    with fails(
        f"reorder: {BREAKS}: loop `i_relu` is not beside the other loops of parallel region `region`",
        "reorder before merge_parallel",
    ):
        sch.reorder(loops_of(sch, "relu")[1], relu)
    with fails(f"add_unit_loop: {BREAKS}: loop `i_relu` is not beside the other loops of parallel region `region`"):
        sch.add_unit_loop(relu)
    with fails("split: loop `i_relu` is parallel", "split it before deciding how it runs"):
        sch.split(relu, [None, 2])
    with fails("fuse: loop `i_relu` is parallel"):
        sch.fuse(*loops_of(sch, "relu"))
    checked(sch)


def test_moved_between_the_loops_of_a_region() -> None:
    sch = schedule(TRANSPOSED)
    plus, all_ = parallel(sch, "plus", "all")
    i, j = loops_of(sch, "twice")
    sch.merge_parallel(plus, all_)
    sch.parallel(i)
    with fails(f"reorder: {BREAKS}: loop `i_twice` is not beside the other loops of parallel region `region`"):
        sch.reorder(j, i)


# --- what is refused -------------------------------------------------------------------------------------


def test_fewer_than_two_loops() -> None:
    sch = schedule()
    (dense,) = parallel(sch, "dense")
    hint = "give those that are to share a region"
    with fails("merge_parallel: fewer than two loops are given", hint):
        sch.merge_parallel(dense)
    with fails("merge_parallel: fewer than two loops are given", hint):
        sch.merge_parallel()


def test_a_loop_given_twice() -> None:
    sch = schedule()
    (dense,) = parallel(sch, "dense")
    with fails("merge_parallel: a loop is given twice", "name each loop once"):
        sch.merge_parallel(dense, dense)


def test_loops_that_are_not_parallel() -> None:
    sch = schedule()
    (dense,) = parallel(sch, "dense")
    i, j = loops_of(sch, "relu")
    hint = "run it on all threads first, by parallel"
    with fails("merge_parallel: loop `i_relu` is serial", hint):
        sch.merge_parallel(dense, i)
    sch.vectorize(j, lanes=4)
    with fails("merge_parallel: loop `j_relu` is vectorized", hint):
        sch.merge_parallel(dense, j)


@pytest.mark.parametrize("inner", ["dense", "relu"])
def test_loops_of_different_nests(inner: str) -> None:
    sch = schedule()
    depth = {name: int(name == inner) for name in ("dense", "relu")}
    found = [loops_of(sch, name)[n] for name, n in depth.items()]
    for loop in found:
        sch.parallel(loop)
    names = [query.loops_above(sch.func, name)[n].var for name, n in depth.items()]
    with fails(
        f"merge_parallel: loops `{names[0]}` and `{names[1]}` do not stand beside one another",
        "give loops that are outside of all others, or directly inside the same one",
    ):
        sch.merge_parallel(*found)


def test_loops_in_another_order() -> None:
    sch = schedule()
    dense, relu = parallel(sch, "dense", "relu")
    with fails(
        "merge_parallel: loop `i` comes before `i_relu` in the program, and is given after it",
        "give the loops in the order in which they run: merging moves none of them",
    ):
        sch.merge_parallel(relu, dense)


def test_a_parallel_loop_between() -> None:
    sch = schedule(TRANSPOSED)
    plus, _, all_ = parallel(sch, "plus", "twice", "all")
    with fails("merge_parallel: parallel loop `i_twice` stands between them", "give it as well"):
        sch.merge_parallel(plus, all_)


def test_a_parallel_loop_inside_what_is_between() -> None:
    sch = schedule(TRANSPOSED)
    plus, all_ = parallel(sch, "plus", "all")
    sch.parallel(loops_of(sch, "twice")[1])
    with fails(
        "merge_parallel: parallel loop `j_twice` is inside a loop between them, which one thread would run",
        "make the loop around it parallel instead, or merge only loops with none such between them",
    ):
        sch.merge_parallel(plus, all_)
