"""Borders, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, run, value

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


HOLDS = [node("NonZero", "x", "places"), node("Transpose", "places", "rows")]


@pytest.mark.parametrize("pads", [(1, 0, 0, 0), (0, 0, 2, 0), (2, 1, 1, 2), (0, 1, 0, 0), (0, -1, 1, 0)])
def test_a_border_of_as_many_elements_as_data_decide(pads: tuple[int, ...]) -> None:
    """As the ends of texts of other lengths, one behind another, begin with a zero."""
    nodes = [*HOLDS, node("Pad", "rows pads seven", "Y"), node("Pad", "rows pads", "Z")]
    known = {"pads": ints(*pads), "seven": np.int64(7)}
    net = ms.load_onnx(model(nodes, [value("x", X)], ["Y", "Z"], known))
    for x in (X, -np.abs(X), np.zeros_like(X)):
        taken = np.argwhere(x)[:, max(-pads[1], 0) :]
        sides = [(pads[0], pads[2]), (max(pads[1], 0), pads[3])]
        for made, filler in zip(net(x), (7, 0), strict=True):
            np.testing.assert_array_equal(made, np.pad(taken, sides, constant_values=filler))


@pytest.mark.parametrize(("pads", "mode"), [((1, 0), "edge"), ((-1, 0), "constant")])
def test_other_borders_of_as_many_elements_as_data_decide_are_refused(pads: tuple[int, int], mode: str) -> None:
    nodes = [*HOLDS, node("Pad", "rows pads none axes", "Y", mode=mode)]
    known = {"pads": ints(*pads), "axes": ints(0), "none": np.int64(0)}
    with pytest.raises(ms.RefusedModel, match="along its dimension 0, to which a border can be added that is of a val"):
        ms.load_onnx(model(nodes, [value("x", X)], ["Y"], known))
