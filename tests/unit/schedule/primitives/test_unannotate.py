from __future__ import annotations

from metasched.ir.integers.affine import const
from metasched.schedule.primitives.annotate import annotate
from metasched.schedule.primitives.unannotate import unannotate
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, schedule
from tests.support.structural import refused, start


def test_a_loop_and_a_block_as_before() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    for target in ("i", "dense"):
        annotate(ctx, target, "unroll_limit", const(16))
    for target in ("i", "dense"):
        unannotate(ctx, target, "unroll_limit")
    assert ctx.func == before


def test_in_a_trace() -> None:
    sch = schedule()
    block = sch.get_block("dense")
    sch.annotate(block, "unroll_limit", 4)
    sch.unannotate(block, "unroll_limit")
    checked(sch)


def test_a_note_that_is_not_there() -> None:
    ctx = start(DENSE_RELU)
    with refused('`i` has no annotation "unroll_limit"'):
        unannotate(ctx, "i", "unroll_limit")
    annotate(ctx, "i", "unroll_limit", const(4))
    with refused('`i` has no annotation "unroll"'):
        unannotate(ctx, "i", "unroll")


def test_a_target_that_is_gone() -> None:
    with refused("there is no block or loop `x` any more"):
        unannotate(start(DENSE_RELU), "x", "unroll_limit")
