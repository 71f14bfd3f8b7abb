"""What exported networks and networks of sizes have in common."""

from __future__ import annotations

import numpy as np

from metasched.runtime.export.network_loader import without_padding


def test_a_result_keeps_the_elements_of_a_calls_sizes() -> None:
    """A dimension that joins several is cut in each of them."""
    array = np.arange(4 * 6).reshape(4, 6)
    assert (without_padding(array, [[(4, 2)], [(6, 5)]]) == array[:2, :5]).all()
    joined = without_padding(array, [[(4, 3)], [(2, 1), (3, 2)]])
    assert joined.tolist() == array[:3, :2].tolist()
    assert joined.flags.c_contiguous


def test_a_result_without_padding_is_itself() -> None:
    array = np.zeros((2, 3))
    assert without_padding(array, [[(2, 2)], [(3, 3)]]) is array
