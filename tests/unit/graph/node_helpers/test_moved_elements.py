"""Elements of constants moved by programs, which the graph computes as it is made, against NumPy's indexing."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.builder import GraphBuilder, GraphValue, NodeOrigin
from metasched.graph.node_helpers.moved_elements import (
    mirror_axis,
    replace_part,
    slice_axes,
    stack_values,
    transpose_axes,
)
from metasched.graph.site import NodeSite

X = np.arange(4 * 7, dtype=np.float32).reshape(4, 7)


@pytest.fixture
def site() -> NodeSite:
    return NodeSite(NodeOrigin("n", "Move", "y"), 22, (), {}, (True,), GraphBuilder())


@pytest.mark.parametrize("axis", [0, 1])
def test_a_value_is_mirrored(site: NodeSite, axis: int) -> None:
    np.testing.assert_array_equal(elements(mirror_axis(site, site.constant(X), axis)), np.flip(X, axis))


@pytest.mark.parametrize(
    ("start", "step", "count"), [(0, 1, 7), (2, 1, 3), (1, 2, 3), (6, -1, 7), (5, -2, 3), (3, 1, 0)]
)
def test_a_part_is_taken_and_replaced(site: NodeSite, start: int, step: int, count: int) -> None:
    places = start + step * np.arange(count)
    parts = {1: (start, step, count)}
    x = site.constant(X)
    np.testing.assert_array_equal(elements(slice_axes(site, x, parts)), X[:, places])
    update = -1 - np.arange(4 * count, dtype=np.float32).reshape(4, count)
    expected = X.copy()
    expected[:, places] = update
    np.testing.assert_array_equal(elements(replace_part(site, x, parts, site.constant(update))), expected)


def test_dimensions_in_another_order(site: NodeSite) -> None:
    x = np.arange(2 * 3 * 4, dtype=np.int64).reshape(2, 3, 4)
    np.testing.assert_array_equal(elements(transpose_axes(site, site.constant(x), (2, 0, 1))), x.transpose(2, 0, 1))


def test_more_values_are_stacked_than_one_program_joins(site: NodeSite) -> None:
    rows = [np.full((2, 3), n, np.float32) for n in range(37)]
    made = stack_values(site, [site.constant(row) for row in rows], axis=1)
    np.testing.assert_array_equal(elements(made), np.stack(rows, axis=1))


def elements(value: GraphValue) -> np.ndarray:
    assert value.constant is not None
    return value.constant
