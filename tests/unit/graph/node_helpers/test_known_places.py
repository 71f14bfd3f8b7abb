"""Places of updates as boxes, and tables of which update is where, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.known_places import (
    BoxSide,
    box_of,
    last_updates,
    last_updates_along,
    wrap_negative_places,
)


@given(st.data())
def test_places_of_a_box_are_found_along_dimensions_of_the_updates(data: st.DataObject) -> None:
    extents = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    sides = []
    for extent in extents:
        first = data.draw(st.integers(0, extent - 1))
        step = data.draw(st.integers(1, 3))
        sides.append(range(first, extent, step))
    order = data.draw(st.permutations(range(len(sides))))
    shape = [len(sides[dim]) for dim in order]
    places = np.zeros((*shape, len(sides)), np.int64)
    for axis, dim in enumerate(order):
        places[..., dim] = np.array(sides[dim]).reshape([-1 if a == axis else 1 for a in range(len(order))])
    box = box_of(places)
    assert box is not None
    for dim, (side, own) in enumerate(zip(box, sides, strict=True)):
        assert range(side.first, side.first + side.step * (side.count - 1) + 1, side.step) == own or len(own) == 1
        assert side.count == len(own)
        assert side.axis == (order.index(dim) if len(own) > 1 else None)


@pytest.mark.parametrize(
    "places",
    [
        [[0, 0], [1, 1]],  # a diagonal
        [[0, 0], [0, 0]],  # one place twice
        [[0, 0], [0, 1], [0, 3]],  # steps that differ
        [[2, 0], [1, 0]],  # from the end
    ],
)
def test_what_is_no_box(places: list[list[int]]) -> None:
    assert box_of(np.array(places)) is None


@pytest.mark.parametrize(
    ("side", "conditions", "of_updates"),
    [
        (BoxSide(0, 1, 8, 1), [], "i0"),
        (BoxSide(2, 1, 6, 1), ["i0 >= 2"], "i0 - 2"),
        (BoxSide(0, 3, 2, 1), ["i0 < 4", "(i0) % 3 == 0"], "(i0) // 3"),
        (BoxSide(5, 1, 1, None), ["i0 >= 5", "i0 < 6"], "0"),
    ],
)
def test_conditions_of_a_side(side: BoxSide, conditions: list[str], of_updates: str) -> None:
    assert side.condition("i0", 8) == conditions
    assert side.update_index("i0") == of_updates


def test_places_are_counted_from_the_beginning() -> None:
    np.testing.assert_array_equal(wrap_negative_places(np.array([[-1, 2], [0, -3]]), (4, 3, 9)), [[3, 2], [0, 0]])
    with pytest.raises(Unsupported, match="an index is 3, and there are 3 elements"):
        wrap_negative_places(np.array([[0, 3]], np.int32), (4, 3))


def test_the_last_of_several_updates_counts() -> None:
    np.testing.assert_array_equal(last_updates(np.array([2, 0, 2]), 4), [1, -1, 2, -1])
    lines = last_updates_along(np.array([[1, 0], [1, 1], [0, 1]]), 0, (2, 3))
    np.testing.assert_array_equal(lines, [[2, 0, -1], [1, 2, -1]])
