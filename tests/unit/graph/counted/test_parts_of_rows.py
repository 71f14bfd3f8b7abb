"""Parts of values with a size that data decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, random, value

X = np.float32([0, 3, 0, -1, 5])
PLACES = [node("NonZero", "x", "places"), node("Transpose", "places", "rows")]
KNOWN = {
    "pair": np.int64([1, 1]),
    "more": np.int64([2, 1]),
    "long": np.int64([4, 2]),
    "less": np.int64([3, -1]),
    "one": np.int64(1),
    "all": np.int64([1]),
    "zero": np.int64(0),
}


def loaded(*nodes: Any, outputs: tuple[str, ...], x: Any = X) -> ms.Network:
    return ms.load_onnx(model([*PLACES, *nodes], [value("x", x)], outputs, KNOWN))


def parts_by_numpy(places: Any, *sizes: int) -> list[Any]:
    """Parts of places, which go on with zeros."""
    padded = np.zeros((9, 1), np.int64)
    padded[: len(places)] = places
    return np.split(padded, np.cumsum(sizes))[: len(sizes)]


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize(("sizes", "wanted"), [("pair", (1, 1)), ("more", (2, 1))])
def test_parts_along_rows_begin_at_known_places_and_what_is_not_there_is_zero(
    sizes: str, wanted: tuple[int, ...], count: int
) -> None:
    net = loaded(node("Split", f"rows {sizes}", "p q", axis=0), outputs=("p", "q"))
    x = np.float32([0] * (5 - count) + [1] * count)
    assert [net.outputs[name].shape for name in "pq"] == [(n, 1) for n in wanted]
    for found, want in zip(net(x), parts_by_numpy(np.argwhere(x), *wanted), strict=True):
        np.testing.assert_array_equal(found, want)


def test_parts_along_rows_in_a_sequence() -> None:
    nodes = [node("SplitToSequence", "rows more", "s", axis=0), node("SequenceAt", "s one", "q")]
    np.testing.assert_array_equal(loaded(*nodes, outputs=("q",))(X), [[4]])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_parts_along_another_dimension_have_as_many_rows(keepdims: int) -> None:
    x = random(3, 4)
    nodes = [
        node("SplitToSequence", "rows", "s", axis=1, keepdims=keepdims),
        node("SequenceAt", "s one", "columns"),
        node("Split", "rows pair", "first second", axis=1),
    ]
    x[x < 0] = 0
    columns, first = loaded(*nodes, outputs=("columns", "first"), x=x)(x)
    places = np.argwhere(x)
    np.testing.assert_array_equal(columns, places[:, 1:] if keepdims else places[:, 1])
    np.testing.assert_array_equal(first, places[:, :1])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            node("Split", "rows", "p q", axis=0, num_outputs=2),
            "and so how many each of its 2 parts has: it can be",
        ),
        (node("Split", "rows long", "p q", axis=0), r"has no parts of \(4, 2\): there are 5 elements at most"),
        (node("Split", "rows less", "p q", axis=0), r"has no parts of \(3, -1\)"),
        (node("Split", "rows all", "p q", axis=0), "it has 2 outputs, and 1 sizes of parts"),
        (node("SplitToSequence", "rows", "p", axis=0), "5 at most, and so how many parts there are: it can be"),
        (node("SplitToSequence", "rows one", "p", axis=0), "5 at most, and so how many parts there are"),
    ],
)
def test_parts_whose_sizes_data_decide_are_refused_as_such(made: Any, reason: str) -> None:
    nodes = [made, node("SequenceAt", "p zero", "y")] if made.op_type == "SplitToSequence" else [made]
    with pytest.raises(ms.RefusedModel, match=reason) as error:
        loaded(*nodes, outputs=("y",) if len(nodes) == 2 else ("p", "q"))
    assert [refusal.op for refusal in error.value.refusals] == [made.op_type]


FAR = np.iinfo(np.int64)
SLICES = [
    (0, -1, 1), (-2, FAR.max, 1), (1, -1, 1), (-3, -1, 1), (-3, 2, 1), (0, FAR.max, 2), (1, 5, 3), (-1, FAR.min, -1),
    (FAR.max, FAR.min, -2), (2, FAR.min, -1), (-1, -4, -1), (FAR.max, 1, -1), (3, -3, -1), (-1, -3, 1),
]  # fmt: skip


def test_parts_from_the_end_on_and_backwards_are_of_those_that_are_there() -> None:
    """Of none up to all: what NumPy makes of the same slices, those along another dimension among them."""
    known = {"axes": np.int64([0, 1])}
    nodes = []
    for number, part in enumerate(SLICES):
        for name, place in zip(("start", "end", "step"), part, strict=True):
            known[f"{name}{number}"] = np.int64([place, -1 if name == "start" else FAR.min if name == "end" else -1])
        nodes.append(node("Slice", f"rows start{number} end{number} axes step{number}", f"Y{number}"))
    places = [node("NonZero", "x", "places"), node("Transpose", "places", "rows")]
    x = random(2, 3)
    names = [f"Y{number}" for number in range(len(SLICES))]
    net = ms.load_onnx(model([*places, *nodes], [value("x", x)], names, known))
    assert net.outputs["Y1"].shape == net.outputs["Y3"].shape == net.outputs["Y13"].shape == (2, 2)
    for count in range(7):
        x = np.float32([0] * (6 - count) + [1] * count).reshape(2, 3)
        for part, found in zip(SLICES, net(x), strict=True):
            np.testing.assert_array_equal(found, np.argwhere(x)[slice(*part), ::-1], err_msg=f"{part} of {count}")


def test_a_part_backwards_of_nothing_but_one() -> None:
    known = {"last": np.int64([-1]), "end": np.int64([FAR.min]), "axes": np.int64([1])}
    nodes = [node("NonZero", "x", "places"), node("Slice", "places last end axes last")]
    made = model(nodes, [value("x", X[:1])], ["Y"], known)
    np.testing.assert_array_equal(ms.load_onnx(made)(np.float32([2])), [[0]])
    np.testing.assert_array_equal(ms.load_onnx(made)(np.float32([0])), np.zeros((1, 0)))
