from __future__ import annotations

from metasched.schedule.primitives.set_scope import set_scope
from tests.support.programs import DENSE_RELU
from tests.support.structural import body, refused, same, start


def test_the_scope_of_what_a_block_writes() -> None:
    ctx = start(DENSE_RELU)
    before = ctx.func
    set_scope(ctx, "dense", "register")
    same(before, ctx.func)
    assert body(ctx.func).splitlines()[1] == "temp C: f32[11, 9] register"


def test_an_output() -> None:
    with refused("block `relu` writes the output `D`"):
        set_scope(start(DENSE_RELU), "relu", "local")


def test_no_such_scope() -> None:
    with refused('there is no scope "shared"'):
        set_scope(start(DENSE_RELU), "dense", "shared")
