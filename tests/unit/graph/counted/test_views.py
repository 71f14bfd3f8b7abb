"""Views of values with a size that only a call knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value

X = random(3, 4, 5)
# `rows` has a row of three places for each positive element; `planes` has them as columns.
HOLDS = [node("Greater", "x zero", "holds"), node("NonZero", "holds", "planes"), node("Transpose", "planes", "rows")]
KNOWN = {
    "zero": np.float32(0),
    "none": np.int64(0),
    "one": np.int64([1]),
    "three": np.int64([3]),
    "flat": np.int64([-1]),
    "keeping": np.int64([0, 3, -1]),
    "pairs": np.int64([-1, 2]),
    "halves": np.int64([2, -1]),
    "triples": np.int64([-1, 3]),
    "joined": np.int64([1, -1, 1]),
}


def loaded(*nodes: Any, outputs: tuple[str, ...] = ("Y",)) -> ms.Network:
    return ms.load_onnx(model([*HOLDS, *nodes], [value("x", X)], outputs, KNOWN))


def test_rows_are_taken_together_and_apart() -> None:
    net = loaded(
        node("Reshape", "rows flat", "elements"),
        node("Reshape", "rows joined", "inside"),
        node("Reshape", "rows keeping", "apart"),
        node("Flatten", "rows", "one_row", axis=0),
        node("Shape", "rows", "size"),
        node("Gather", "size none", "n"),
        node("Unsqueeze", "n none", "count"),
        node("Concat", "count three", "shape", axis=0),
        node("Reshape", "elements shape", "again"),
        outputs=("elements", "inside", "apart", "one_row", "again"),
    )
    for x in (X, -np.abs(X)):
        rows = np.argwhere(x > 0)
        for found, wanted in zip(
            net(x), (rows.ravel(), rows.reshape(1, -1, 1), rows[:, :, None], rows.reshape(1, -1), rows), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([node("Reshape", "rows pairs")], r"and i64\[90, 2\] has no such one"),
        ([node("Reshape", "rows halves")], r"and i64\[2, 90\] has no such one"),
        ([node("Reshape", "rows flat", "elements"), node("Reshape", "elements triples")], "has no such one"),
        ([node("Reshape", "planes flat")], r"i64\[3, 60\] has along its dimension 1, and i64\[180\]"),
        (
            [
                node("NonZero", "x", "others"),
                node("Shape", "others", "size", start=1),
                node("Concat", "size flat", "shape", axis=0),
                node("Reshape", "rows shape"),
            ],
            "its dimension 1 is what is left of as many elements as data decide",
        ),
    ],
)
def test_views_without_such_a_dimension_are_refused(nodes: list[Any], reason: str) -> None:
    with pytest.raises(ms.RefusedModel, match=reason):
        loaded(*nodes)
