"""Elements picked by indices, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import integers, random, run

X = random(2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


@pytest.mark.parametrize("known", [(), (1,)])
def test_elements_are_gathered(known: tuple[int, ...]) -> None:
    index = ints(0, -1, 2, -3).reshape(2, 2)
    np.testing.assert_array_equal(run("Gather", X, index, constants=known, axis=1), X[:, index])
    places = integers(2, 2, 4, low=-3, high=3, dtype=np.int64)
    np.testing.assert_array_equal(
        run("GatherElements", X, places, constants=known, axis=1), np.take_along_axis(X, places % 3, 1)
    )
    pairs = ints(0, 1, 1, -1).reshape(2, 2)
    np.testing.assert_array_equal(run("GatherND", X, pairs, constants=known), X[pairs[:, 0], pairs[:, 1]])


def test_an_index_that_is_out_of_range_picks_zero_or_is_refused_where_it_is_known() -> None:
    np.testing.assert_array_equal(run("Gather", random(3), ints(3, -4, 5)), [0, 0, 0])
    with pytest.raises(ms.RefusedModel, match="an index is 3, and there are 3 elements"):
        run("Gather", random(3), ints(3), constants=(1,))


def test_one_of_many() -> None:
    made = run("OneHot", ints(1, -1), np.array(3, np.int64), np.float32([-1, 5]), constants=(1,))
    np.testing.assert_array_equal(made, [[-1, 5, -1], [-1, -1, 5]])


def test_one_of_many_has_two_values() -> None:
    with pytest.raises(ms.RefusedModel, match=r"its values are f32\[3\], and not two"):
        run("OneHot", np.int64([0, 1]), np.int64(4), np.float32([0, 1, 2]), constants=(1,))
