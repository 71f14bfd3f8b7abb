"""Borders, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import random, run

X = random(2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


PADS = [((0, 1, 2), (0, 2, 1)), ((1, 0, 0), (0, 0, 0)), ((0, 0, 3), (1, 2, 3)), ((3, 5, 0), (0, 4, 9))]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(("before", "after"), PADS)
def test_borders(mode: Any, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    expected = np.pad(X, list(zip(before, after, strict=True)), mode)
    np.testing.assert_array_equal(run("Pad", X, ints(*before, *after), constants=(1,), mode=mode), expected)


def test_a_border_of_a_value_and_one_that_is_taken_off() -> None:
    x = random(5)
    made = run("Pad", x, ints(2, -1), np.float32(7), constants=(1,))
    np.testing.assert_array_equal(made, [7, 7, *x[:-1]])


def test_no_more_is_taken_off_than_there_is() -> None:
    x = random(3)
    assert run("Pad", x, np.int64([-2, -1]), constants=(1,)).shape == (0,)
    with pytest.raises(ms.RefusedModel, match=r"pads of -2 and -2 take more than dimension 0 of f32\[3\] has"):
        run("Pad", x, np.int64([-2, -2]), constants=(1,))
