"""Constants at several lengths as one, or as a program that computes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from metasched.graph.growing.constants import grown_constant
from metasched.graph.growing.sizes import LengthDependence, Lengths
from metasched.reference.execution import reference

LENGTHS = Lengths((9, 6, 3), 9)


def test_what_no_length_changes_stays() -> None:
    found = grown_constant([np.arange(4)] * 3, LENGTHS)
    assert found.program is None
    np.testing.assert_array_equal(found.elements, np.arange(4))


@pytest.mark.parametrize(
    "at",
    [
        lambda n: np.arange(n + 1),
        lambda n: np.arange(n, n + 3),
        lambda n: np.array([2, n, 3 * n - 1]),
        lambda n: np.arange(n + 2)[::-1] * 0.5,
        lambda n: np.tri(2, n + 2, n, bool),
    ],
)
def test_elements_at_any_length(at: Callable[[int], np.ndarray]) -> None:
    found = grown_constant([np.ascontiguousarray(at(n)) for n in LENGTHS.samples], LENGTHS)
    for length in range(10):
        made = found.elements
        if found.program is not None:
            given = [found.elements, found.slopes, np.asarray(length)]
            made = reference(found.program)(*(array for array in given if array is not None))
        expected = at(length)
        np.testing.assert_array_equal(made[tuple(slice(0, n) for n in expected.shape)], expected)


@pytest.mark.parametrize(
    "at", [lambda n: np.array([n * n]), lambda n: np.sin(np.arange(3) * n), lambda n: np.zeros((n, 2 * n))]
)
def test_other_elements_are_refused(at: Callable[[int], np.ndarray]) -> None:
    with pytest.raises(LengthDependence):
        grown_constant([at(n) for n in LENGTHS.samples], LENGTHS)
