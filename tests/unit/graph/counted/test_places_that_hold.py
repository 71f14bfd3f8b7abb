"""Places where a condition holds: rows of every length about the powers of two that they are searched by."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, NodeOrigin
from metasched.graph.counted.places_that_hold import places_that_hold
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType


@pytest.mark.parametrize("extent", [1, 2, 3, 7, 8, 9, 33])
def test_places_in_order_and_behind_them_the_number_of_elements(extent: int) -> None:
    for density in (0, 0.4, 1):
        condition = np.random.default_rng(extent).random(extent) < density
        builder = GraphBuilder()
        site = NodeSite(NodeOrigin("n", "NonZero", "y"), 22, (), {}, (True,), builder)
        # What is computed of small constants is computed at once.
        found = places_that_hold(site, site.constant(condition, DType.BOOL))
        places, number = found.places, found.number
        assert places.type == ValueType(DType.I64, (extent,))
        assert places.constant is not None
        assert number.constant is not None
        wanted = np.flatnonzero(condition)
        np.testing.assert_array_equal(places.constant[: len(wanted)], wanted)
        assert (places.constant[len(wanted) :] == extent).all()
        assert number.constant == len(wanted)
