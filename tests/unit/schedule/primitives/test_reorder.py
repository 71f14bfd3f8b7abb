from __future__ import annotations

from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, loops_of, schedule, vars_of
from tests.support.structural import body


def test_a_reduction_outermost() -> None:
    sch = schedule(DENSE_RELU)
    i, j, k = loops_of(sch, "dense")
    sch.reorder(k, i, j)
    assert body(sch.func).splitlines()[2] == "for k, i, j in grid(7, 11, 9):"
    checked(sch)


def test_loops_that_are_not_named_stay() -> None:
    sch = schedule(DENSE_RELU)
    i, _, k = loops_of(sch, "dense")
    sch.reorder(k, i)
    assert vars_of(sch, "dense") == ["k", "j", "i"]
    checked(sch)


def test_kinds_and_notes_move_along() -> None:
    sch = schedule(DENSE_RELU)
    i, j, k = loops_of(sch, "dense")
    sch.vectorize(j, lanes=4)
    sch.annotate(i, "unroll_limit", 8)
    sch.reorder(k, i, j)
    assert "vectorized(4) j in 9" in str(sch)
    assert "@unroll_limit(8)" in str(sch)
    checked(sch)


def test_one_loop_or_none_is_in_order() -> None:
    sch = schedule(DENSE_RELU)
    i, *_ = loops_of(sch, "dense")
    before = sch.func
    sch.reorder(i)
    sch.reorder()
    assert sch.func is before
    checked(sch)


def test_the_order_they_have() -> None:
    sch = schedule(DENSE_RELU)
    before = sch.func
    sch.reorder(*loops_of(sch, "dense"))
    assert sch.func == before


def test_a_loop_twice() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    with fails("reorder: a loop is given twice", "name each loop once"):
        sch.reorder(i, j, i)


HINT = "reorder before moving other blocks between them"


def test_loops_of_two_nests() -> None:
    sch = schedule(DENSE_RELU)
    i, relu = loops_of(sch, "dense")[0], loops_of(sch, "relu")[0]
    message = "reorder: loops `i` and `i_relu` are not in one direct nest: `k` holds more than one loop, or a block"
    with fails(message, HINT):
        sch.reorder(i, relu)


def test_a_block_between() -> None:
    sch = schedule(DENSE_RELU)
    i, j, k = loops_of(sch, "dense")
    sch.reverse_compute_at(sch.get_block("relu"), j)
    message = "reorder: loops `i` and `k` are not in one direct nest: `j` holds more than one loop, or a block"
    with fails(message, HINT):
        sch.reorder(k, i)
    sch.reorder(j, i)
    checked(sch)


def test_a_loop_that_is_gone() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    sch.fuse(i, j)
    with fails("reorder: loop `j` no longer exists"):
        sch.reorder(j, i)


def test_threads_inside_vectors() -> None:
    sch = schedule(DENSE_RELU)
    i, j = loops_of(sch, "relu")
    sch.parallel(i)
    sch.vectorize(j, lanes=4)
    message = "reorder: parallel loop `i_relu` would be inside vectorized loop `j_relu`"
    with fails(message, "leave the parallel loop outside"):
        sch.reorder(j, i)
    sch.reorder(i, j)
    checked(sch)
