"""Where elements of a shape view are in what it is a view of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from metasched.graph.fusion.views import PlaceByData, align_dimensions, indices_through_view
from metasched.ir.nodes import BinOp
from metasched.ir.source import IntLit, Name, Operation, Read, SourceExpr
from metasched.ir.source_printer import print_source

SHAPES = [
    ((4, 6), (4, 2, 3)), ((4, 2, 3), (4, 6)), ((1, 4, 6), (24,)), ((24,), (2, 1, 12)), ((6, 4), (4, 6)),
    ((2, 3, 4), (3, 2, 4)), ((1, 5), (5, 1)), ((2, 1, 3), (1, 2, 3, 1)), ((), (1, 1)), ((1, 1), ()),
]  # fmt: skip


def _value(e: SourceExpr, names: dict[str, int]) -> int:
    return int(eval(print_source(e), {}, names))  # noqa: S307 -- our own text


@pytest.mark.parametrize(("source", "viewed"), SHAPES)
def test_a_read_through_a_view_is_that_of_the_same_element(source: tuple[int, ...], viewed: tuple[int, ...]) -> None:
    elements = np.arange(int(np.prod(source))).reshape(source)
    names = [f"i{n}" for n in range(len(viewed))]
    extents = dict(zip(names, viewed, strict=True))
    made = indices_through_view([Name(n) for n in names], viewed, source, extents)
    for place in itertools.product(*map(range, viewed)):
        at = dict(zip(names, place, strict=True))
        assert elements[tuple(_value(e, at) for e in made)] == elements.reshape(viewed)[place]


def test_an_index_that_was_put_together_is_taken_apart() -> None:
    whole = Operation(BinOp.ADD, Operation(BinOp.MUL, IntLit(3), Name("h")), Name("d"))
    made = indices_through_view([Name("n"), whole], (4, 6), (4, 2, 3), {"n": 4, "h": 2, "d": 3})
    assert [print_source(e) for e in made] == ["n", "h", "d"]


def test_data_that_say_the_one_place_of_a_dimension_are_left_out() -> None:
    place = Read("I", (Name("i"),))
    made = indices_through_view([place, Name("a"), Name("i")], (1, 4, 6), (1, 1, 4, 6), {"a": 4, "i": 6})
    assert [print_source(e) for e in made] == ["0", "0", "a", "i"]
    made = indices_through_view([place, Name("a"), Name("i")], (1, 4, 6), (24,), {"a": 4, "i": 6})
    assert [print_source(e) for e in made] == ["6 * a + i"]
    with pytest.raises(PlaceByData):
        indices_through_view([place, Name("a")], (4, 6), (24,), {"a": 6})


def test_groups_are_as_small_as_can_be() -> None:
    assert align_dimensions((1, 128, 768), (128, 12, 64))[-1] == (range(2, 3), range(1, 3))
