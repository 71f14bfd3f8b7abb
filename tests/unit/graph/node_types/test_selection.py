"""What is picked where a condition holds, against NumPy: data decide how many elements there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import integers, model, node, random, run, value


@pytest.mark.parametrize("known", [(), (1,)])
@pytest.mark.parametrize(
    ("axis", "holds"),
    [(1, [True, False, True]), (-3, [False, True]), (None, [True, True, False, True, False]), (0, [False])],
)
def test_elements_where_a_condition_holds(axis: int | None, holds: list[bool], known: tuple[int, ...]) -> None:
    x, condition = random(2, 4, 3), np.array(holds, bool)
    attributes = {} if axis is None else {"axis": axis}
    made = run("Compress", x, condition, constants=known, **attributes)
    np.testing.assert_array_equal(made, np.compress(condition, x, axis))
    assert made.flags.c_contiguous


def test_conditions_that_are_too_long_are_refused() -> None:
    x, condition = random(2, 3), np.array([False, False, True])
    with pytest.raises(ms.RefusedModel, match="holds at 2, and there are 2 elements"):
        run("Compress", x, condition, constants=[1], axis=0)
    with pytest.raises(ms.RefusedModel, match="its condition has 3 elements, and there are 2"):
        run("Compress", x, condition, axis=0)


@pytest.mark.parametrize(
    "x",
    [
        np.float32([[[1, 0, np.nan], [0, -0.0, 2]], [[0, 0, 0], [0, 0, -np.inf]]]),
        np.zeros((3, 5), np.int64),
        np.ones(1, bool),
        integers(37, 41, low=-1, high=2, dtype=np.int8),  # more than are added up at once
    ],
    ids=str,
)
def test_places_of_what_is_not_zero(x: Any) -> None:
    np.testing.assert_array_equal(run("NonZero", x), np.nonzero(x))


def test_one_number_has_no_places() -> None:
    with pytest.raises(ms.RefusedModel, match="has no places: it is one number"):
        run("NonZero", np.float32(1))


@pytest.mark.parametrize("is_known", [True, False])
def test_elements_at_places_of_what_is_not_zero(is_known: bool) -> None:
    mask, x = np.array([[1, 0], [0, -2]], np.float32), random(2, 2)
    made = [node("NonZero", "C", "places"), node("Transpose", "places", "rows"), node("GatherND", "X rows")]
    inputs = [value("X", x)] if is_known else [value("X", x), value("C", mask)]
    net = ms.load_onnx(model(made, inputs, ["Y"], {"C": mask} if is_known else {}))
    np.testing.assert_array_equal(net(*[x, mask][: len(inputs)]), x[np.nonzero(mask)])


def test_what_is_selected_is_selected_from() -> None:
    x = integers(60, low=-5, high=6)
    made = [
        node("Greater", "x zero", "positive"),
        node("Compress", "x positive", "some", axis=0),
        node("Less", "some four", "small"),
        node("Compress", "some small", "fewer", axis=0),
        node("NonZero", "some", "places"),
        node("NonZero", "small", "those"),
    ]
    net = ms.load_onnx(
        model(made, [value("x", x)], ["fewer", "places", "those"], {"zero": np.int32(0), "four": np.int32(4)})
    )
    fewer, places, those = net(x)
    some = x[x > 0]
    np.testing.assert_array_equal(fewer, some[some < 4])
    np.testing.assert_array_equal(places, [np.arange(len(some))])
    np.testing.assert_array_equal(those, np.nonzero(some < 4))
    other = [*made[:2], node("Compress", "some all", "none", axis=0)]
    with pytest.raises(
        ms.RefusedModel, match="data decide how many elements its data has, and not how many its condition"
    ):
        ms.load_onnx(model(other, [value("x", x), value("all", x > 0)], ["none"], {"zero": np.int32(0)}))


@pytest.mark.parametrize(
    ("op", "attributes"), [("Relu", {}), ("Transpose", {}), ("Unsqueeze", {}), ("Cast", {"to": 7})]
)
@pytest.mark.parametrize("holds", [True, False])
def test_what_is_selected_of_one_row_is_read(op: str, attributes: dict[str, Any], holds: bool) -> None:
    x, condition = random(1, 3), np.array([holds])
    nodes = [node("Compress", "X C", "rows", axis=0)]
    nodes += [node(op, "rows zero" if op == "Unsqueeze" else "rows", "Y", **attributes)]
    inputs = [value("X", x), value("C", condition)]
    made = ms.load_onnx(model(nodes, inputs, ["Y"], {"zero": np.int64([0])} if op == "Unsqueeze" else {}))(x, condition)
    rows = x[condition]
    expected = {"Relu": np.maximum(rows, 0), "Transpose": rows.T, "Unsqueeze": rows[None], "Cast": rows.astype("i8")}
    np.testing.assert_array_equal(made, expected[op])
    assert made.shape == expected[op].shape
