"""How far results are from those in float32: what is said of it."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.graph.precision.error import PrecisionError, differences


def test_the_largest_difference_and_the_norm() -> None:
    (found,) = differences({"y": np.array([3.0, 4.5], np.float32)}, [np.array([3.0, 4.0], np.float32)])
    assert (found.absolute, found.largest) == (0.5, 4.0)
    assert found.relative == pytest.approx(0.1)
    text = str(PrecisionError("bf16", (found,)))
    assert text == "bf16 against float32:\n  `y` differs by 0.5 at most, of elements up to 4; by 0.1 of its norm"


def test_numbers_that_are_not_finite() -> None:
    inf, nan = np.inf, np.nan
    (same,) = differences({"y": np.array([inf, nan, 1.0])}, [np.array([inf, nan, 1.0])])
    assert (same.absolute, same.relative, same.largest) == (0.0, 0.0, 1.0)
    (other,) = differences({"y": np.array([inf, 1.0])}, [np.array([2.0, 1.0])])
    assert other.absolute == other.relative == inf


def test_an_output_of_zeros_and_one_without_elements() -> None:
    zeros, empty = differences({"y": np.array([0.5]), "z": np.empty(0)}, [np.zeros(1), np.empty(0)])
    assert zeros.relative == 0.5
    assert empty.absolute == empty.relative == 0.0
    assert PrecisionError("bf16", (zeros, empty)).summary == "0.5 of `y`'s norm from float32"
    assert PrecisionError("bf16", ()).summary == ""
