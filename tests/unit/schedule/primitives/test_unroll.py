from __future__ import annotations

from metasched.schedule.handlers import DrawFromPrior, Symbolic
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.support.structural import body


def test_any_short_loop() -> None:
    sch = schedule(DENSE_RELU)
    i, _, k = loops_of(sch, "dense")
    sch.unroll(k)
    sch.unroll(i)
    assert "unrolled k in 7:" in body(sch.func)
    checked(sch)


def test_a_long_loop() -> None:
    sch = schedule(DENSE_RELU, K=513)
    *_, k = loops_of(sch, "dense")
    with fails("unroll: the extent of loop `k` is over 512", "split it and unroll the inner part"):
        sch.unroll(k)
    sch = schedule(DENSE_RELU, K=512)
    sch.unroll(loops_of(sch, "dense")[2])


def test_a_free_extent_is_constrained() -> None:
    sch = schedule(DENSE_RELU, K=2000, handler=Symbolic(DrawFromPrior(0)))
    *_, k = loops_of(sch, "dense")
    _, inner = sch.split(k, sch.sample_tile(k, innermost=1000))
    sch.unroll(inner)
    (constraint,) = sch.context.constraints
    assert constraint.reason == "unroll: the extent of loop `k_1` is over 512"


def test_a_loop_that_is_decided() -> None:
    sch = schedule(DENSE_RELU)
    *_, k = loops_of(sch, "dense")
    sch.unroll(k)
    with fails("unroll: loop `k` is unrolled", "unroll it before deciding how it runs"):
        sch.unroll(k)
