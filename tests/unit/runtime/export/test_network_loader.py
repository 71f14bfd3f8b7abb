"""What exported networks and networks of sizes have in common."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from metasched.runtime.export.network_loader import NumberKind, without_padding


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


@pytest.mark.parametrize(
    ("kind", "number", "dtype"),
    [
        (NumberKind.WHOLE, 3, np.int64),
        (NumberKind.FLOAT, 3.0, np.float64),
        (NumberKind.INVERSE, 1 / 3, np.float64),
        (NumberKind.INVERSE32, float(np.float32(1 / 3)), np.float64),
    ],
)
def test_what_a_number_is_of_a_sum_of_sizes(kind: NumberKind, number: float, dtype: type) -> None:
    assert (kind.of(Fraction(3)), type(kind.of(Fraction(3))), kind.dtype) == (number, type(number), dtype)
