"""get_block, get_loops, get_producers, get_consumers: they look, and touch nothing."""

from __future__ import annotations

import pytest

from tests.support.programs import DENSE_RELU, ROWS, TWO
from tests.support.schedules import checked, fails, lines, loops_of, schedule


def test_blocks_by_name() -> None:
    sch = schedule(DENSE_RELU)
    assert sch.get_block("relu").label == "relu"
    made = sch.cache_read(sch.get_block("dense"), "A", scope="local")
    assert sch.name_of(sch.get_block("dense.A.read")) == sch.name_of(made)
    checked(sch)


def test_a_block_that_is_not_there() -> None:
    with fails("get_block: there is no block `conv`", "the program's blocks now are `dense` and `relu`"):
        schedule(DENSE_RELU).get_block("conv")


def test_a_block_that_was_inlined() -> None:
    sch = schedule(TWO)
    first = sch.get_block("first")
    sch.compute_inline(first)
    hint = "the program's blocks now are `second` and `both`"
    with fails("get_block: there is no block `first`", hint):
        sch.get_block("first")
    for look in (sch.get_loops, sch.get_producers, sch.get_consumers):
        with fails(f"{look.__name__}: there is no block `first`", hint):
            look(first)


def test_loops_are_outermost_first() -> None:
    sch = schedule(DENSE_RELU)
    i, j, k = loops_of(sch, "dense")
    sch.reorder(k, j, i)
    assert [h.label for h in sch.get_loops(sch.get_block("dense"))] == ["k", "j", "i"]
    checked(sch)


@pytest.mark.parametrize(
    ("block", "producers", "consumers"),
    [
        ("most", [], ["apart"]),
        ("apart", ["most"], ["total", "out"]),
        ("total", ["apart"], ["out"]),
        ("out", ["apart", "total"], []),
    ],
)
def test_neighbours(block: str, producers: list[str], consumers: list[str]) -> None:
    sch = schedule(ROWS)
    handle = sch.get_block(block)
    before = sch.func
    assert [sch.name_of(b) for b in sch.get_producers(handle)] == producers
    assert [sch.name_of(b) for b in sch.get_consumers(handle)] == consumers
    assert sch.func is before
    checked(sch)


def test_no_neighbours_is_a_line_without_names() -> None:
    sch = schedule(ROWS)
    assert sch.get_producers(sch.get_block("most")) == []
    assert lines(sch.trace)[-1] == "get_producers(most)"
    checked(sch)


def test_an_initialisation_and_its_update() -> None:
    """Both write the buffer: both are producers of what reads it, and neither of the other."""
    sch = schedule(DENSE_RELU)
    *_, k = loops_of(sch, "dense")
    sch.decompose_reduction(sch.get_block("dense"), k)
    names = [sch.name_of(b) for b in sch.get_producers(sch.get_block("relu"))]
    assert names == ["dense.init", "dense"]
