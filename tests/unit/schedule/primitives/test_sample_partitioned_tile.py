from __future__ import annotations

import pytest

from metasched.lang.instructions import HOLE
from metasched.schedule.handlers import DrawFromPrior, Policy, Replay, Symbolic
from metasched.schedule.values import Int
from tests.support.schedules import checked, fails, lines, loops_of, schedule


def test_sizes_of_which_the_inner_ones_are_a_multiple() -> None:
    sch = schedule(handler=Replay({"j": (HOLE, 2, 3)}, Policy.STRICT, DrawFromPrior(0)))
    _, j, _ = loops_of(sch, "dense")
    sizes = sch.sample_partitioned_tile(j, parts=3, partition=1, innerpart_factor=6)
    assert lines(sch.trace)[-1].endswith('~ sample_partitioned_tile(j, 3, 1, 6) @ "j" := [_, 2, 3]')
    sch.split(j, sizes)
    assert "grid(11, 2, 2, 3, 7)" in str(sch)
    checked(sch)


def test_a_tile_of_a_tile_under_every_handler() -> None:
    for handler in (DrawFromPrior(0), Symbolic(DrawFromPrior(0))):
        sch = schedule(handler=handler, N=60)
        i, *_ = loops_of(sch, "dense")
        _, inner = sch.split(i, sch.sample_partitioned_tile(i, 2, 1, 4))
        sizes = sch.sample_partitioned_tile(inner, 2, 1, 4)
        assert all(isinstance(t, Int) for t in sizes)
        sch.split(inner, sizes)


def test_a_decision_outside_the_support() -> None:
    sch = schedule(handler=Replay({"j": (HOLE, 2, 2)}, Policy.STRICT, DrawFromPrior(0)))
    with fails(
        'sample_partitioned_tile: the decision [_, 2, 2] at "j" is not in the support (2 inner factors of 9, the '
        "product of the innermost 2 a multiple of 6)"
    ):
        sch.sample_partitioned_tile(loops_of(sch, "dense")[1], 3, 1, 6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((1, 1, 4), "parts is 1; a tile has at least two parts"),
        ((65, 1, 4), "parts is 65; a tile has at most 64"),
        ((3, 0, 4), "partition is 0; both partitions of 3 parts have at least one"),
        ((3, 3, 4), "partition is 3; both partitions of 3 parts have at least one"),
        ((3, 1, 0), "innerpart_factor is 0; it is at least 1"),
    ],
)
def test_what_is_no_tile(settings: tuple[int, int, int], message: str) -> None:
    sch = schedule()
    with fails(f"sample_partitioned_tile: {message}"):
        sch.sample_partitioned_tile(loops_of(sch, "dense")[0], *settings)


def test_a_loop_that_is_gone() -> None:
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    sch.fuse(i, j)
    with fails("sample_partitioned_tile: loop `i` no longer exists"):
        sch.sample_partitioned_tile(i, 2, 1, 4)
