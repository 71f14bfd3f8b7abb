from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.ir.integers.affine import const
from metasched.ir.nodes import For
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from metasched.schedule.primitives.parallel import parallel
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.support.structural import body, refused, start


@pytest.mark.parametrize(("which", "header"), [(0, "parallel i in 11:"), (1, "parallel j in 9:")])
def test_a_spatial_loop(which: int, header: str) -> None:
    sch = schedule()
    sch.parallel(loops_of(sch, "dense")[which])
    text = body(sch.func)
    assert header in text
    assert text.count("parallel ") == 1
    checked(sch)


def test_around_a_chain_of_blocks() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    sch.reverse_compute_at(sch.get_block("relu"), i)
    sch.parallel(i)
    checked(sch)


def test_around_private_intermediates() -> None:
    """What is written and read inside an iteration is each iteration's own."""
    sch = schedule(RELU_PAD_MATMUL)
    i, *_ = loops_of(sch, "matmul")
    sch.compute_at(sch.get_block("pad"), i)
    sch.compute_at(sch.get_block("relu"), i)
    sch.parallel(i)
    checked(sch)


def test_an_imperfect_tile_with_free_sizes() -> None:
    sch = schedule(handler=Symbolic(DrawFromPrior(0)))
    i, *_ = loops_of(sch, "dense")
    outer, _ = sch.split(i, sch.sample_tile(i))
    sch.parallel(outer)
    assert not sch.context.constraints


def test_a_reduction_loop() -> None:
    sch = schedule()
    message = "parallel: loop `k` runs along a reduction of block `dense`"
    with fails(message, "rfactor the loop first, or choose another loop"):
        sch.parallel(loops_of(sch, "dense")[2])


def test_a_part_of_a_reduction_loop() -> None:
    sch = schedule()
    *_, k = loops_of(sch, "dense")
    _, inner = sch.split(k, [None, 2])
    with fails("parallel: loop `k_1` runs along a reduction of block `dense`"):
        sch.parallel(inner)


def test_a_fused_loop_that_is_part_of_a_reduction() -> None:
    sch = schedule()
    _, j, k = loops_of(sch, "dense")
    with fails("parallel: loop `j_k` runs along a reduction of block `dense`"):
        sch.parallel(sch.fuse(j, k))


def test_iterations_that_write_the_same() -> None:
    ctx = start(DENSE_RELU)
    ctx.func = replace(ctx.func, body=For("again", const(2), ctx.func.body))
    message = "every iteration of loop `again` writes the same elements in block `relu`"
    with refused(message):
        parallel(ctx, "again")


HINT = "fuse the two loops instead"


def test_inside_and_around_another() -> None:
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    sch.parallel(j)
    with fails("parallel: loop `j` of the same nest is parallel", HINT):
        sch.parallel(i)
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    sch.parallel(i)
    with fails("parallel: loop `i` of the same nest is parallel", HINT):
        sch.parallel(j)
    with fails("parallel: loop `i` is parallel", "parallel it before deciding how it runs"):
        sch.parallel(i)


def test_inside_a_vector_loop() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    sch.reorder(j, i)
    sch.vectorize(j, lanes=4)
    with fails("parallel: loop `j` around it is vectorized", "parallel a loop around `j` instead"):
        sch.parallel(i)
