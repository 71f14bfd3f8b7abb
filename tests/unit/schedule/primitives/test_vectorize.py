from __future__ import annotations

import pytest

from metasched.schedule.handlers import DrawFromPrior, Symbolic
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, lines, loops_of, schedule
from tests.support.structural import body

ROW = """
program row[N=13](A: f32[N]) -> C: f32[N]:
    twice: C[i] = A[i] * 2
"""


@pytest.mark.parametrize("extent", [1, 7, 8, 13])
@pytest.mark.parametrize("lanes", [1, 3, 8, 64])
def test_any_extent_in_strips(extent: int, lanes: int) -> None:
    sch = schedule(ROW, N=extent)
    sch.vectorize(*loops_of(sch, "twice"), lanes=lanes)
    assert body(sch.func).splitlines()[1] == f"vectorized({lanes}) i in {extent}:"
    checked(sch)


def test_around_a_reduction() -> None:
    sch = schedule(DENSE_RELU)
    _, j, k = loops_of(sch, "dense")
    sch.vectorize(j, lanes=8)
    sch.reorder(k, j)
    checked(sch)


def test_lanes_are_a_random_variable() -> None:
    sch = schedule(ROW)
    (i,) = loops_of(sch, "twice")
    sch.vectorize(i, lanes=sch.sample_categorical([4, 8]))
    assert lines(sch.trace)[-1] == "vectorize(i, lanes=t0)"
    checked(sch)


def test_free_lanes_are_constrained() -> None:
    sch = schedule(ROW, handler=Symbolic(DrawFromPrior(0)))
    (i,) = loops_of(sch, "twice")
    sch.vectorize(i, lanes=sch.sample_categorical([4, 128]))
    (constraint,) = sch.context.constraints
    assert constraint.reason == "vectorize: lanes are not between 1 and 64"


@pytest.mark.parametrize("lanes", [0, -4, 65, 1 << 20])
def test_lanes_out_of_range(lanes: int) -> None:
    sch = schedule(ROW)
    with fails("vectorize: lanes are not between 1 and 64"):
        sch.vectorize(*loops_of(sch, "twice"), lanes=lanes)


def test_the_innermost_loop_of_a_reduction() -> None:
    sch = schedule(DENSE_RELU)
    k = loops_of(sch, "dense")[2]
    sch.vectorize(k, lanes=4)
    checked(sch)
    with fails(
        "reorder: a reduction runs along vectorized loop `k`, which would be right around its block no more",
        "reorder before vectorizing it",
    ):
        sch.reorder(k, loops_of(sch, "dense")[1])


def test_an_outer_loop_of_a_reduction() -> None:
    sch = schedule(DENSE_RELU)
    _, j, k = loops_of(sch, "dense")
    sch.reorder(k, j)
    message = "vectorize: loop `k` runs along a reduction of block `dense`"
    with fails(message, "rfactor the loop first, or choose another loop"):
        sch.vectorize(k, lanes=4)


def test_the_best_position() -> None:
    sch = schedule("program f[N=8](X: f32[2, N]) -> (V: f32[2], P: i64[2]):\n    V[i], P[i] = argmax[k](X[i, k])\n")
    sch.vectorize(loops_of(sch, "V")[1], lanes=4)
    assert "vectorized(4) k in 8:" in body(sch.func)
    checked(sch)


def test_a_block_that_does_not_depend_on_it() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    sch.reverse_compute_at(sch.get_block("relu"), i)
    sch.cache_read(sch.get_block("dense"), "A", scope="local")
    sch.compute_at(sch.get_block("dense.A.read"), j)
    message = "vectorize: block `dense.A.read` does not depend on loop `j`"
    with fails(message, "vectorize a loop around fewer blocks"):
        sch.vectorize(j, lanes=4)
    checked(sch)


def test_lanes_that_all_write_one_element() -> None:
    sch = schedule("program whole[N=1](A: i32[N]) -> S: i32[1]:\n    dot: S[o < 1] = sum[k](A[k])")
    dot = sch.get_block("dot")
    sch.transform_block_layout(dot, "o, k -> o % 2, k, o // 2")
    _, last = sch.split(sch.get_loops(dot)[0], [None, 2])
    with fails("vectorize: block `dot` does not depend on loop `o_0_1`", "vectorize a loop around fewer blocks"):
        sch.vectorize(last, lanes=2)
    checked(sch)


def test_two_in_one_nest() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    sch.vectorize(j, lanes=4)
    with fails("vectorize: loop `j` of the same nest is vectorized"):
        sch.vectorize(i, lanes=4)
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    sch.vectorize(i, lanes=4)
    with fails("vectorize: loop `i` of the same nest is vectorized"):
        sch.vectorize(j, lanes=4)


def test_a_parallel_loop_inside() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    sch.parallel(j)
    with fails("vectorize: loop `j` inside it is parallel"):
        sch.vectorize(i, lanes=4)


def test_a_loop_that_is_decided() -> None:
    sch = schedule(DENSE_RELU)
    _, j, _ = loops_of(sch, "dense")
    sch.unroll(j)
    with fails("vectorize: loop `j` is unrolled", "vectorize it before deciding how it runs"):
        sch.vectorize(j, lanes=4)


BYTES = """
program bytes[N=3, M=16, K=8](A: u8[N, K], B: i8[M, K]) -> C: i32[N, M]:
    C[i, j] = sum[k](i32(A[i, k]) * i32(B[j, k]))
"""


@pytest.mark.parametrize("loop", [0, 1])
def test_beside_a_tensorized_nest(loop: int) -> None:
    sch = schedule(BYTES)
    _, j, k = loops_of(sch, "C")
    j_0, j_1 = sch.split(j, [None, 16])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(j_0, k_0, j_1, k_1)
    sch.tensorize(j_1, "dot_u8i8_vnni")
    with fails("vectorize: loop `j_1` of the same nest is tensorized"):
        sch.vectorize(loops_of(sch, "C")[loop], lanes=16)
