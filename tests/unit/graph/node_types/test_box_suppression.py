"""Boxes of which none overlaps a better one, against a loop of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.onnx_models import model, node, run, value


def random_boxes(batch: int, count: int) -> Any:
    rng = np.random.default_rng(0)
    corners = rng.random((batch, count, 2))
    return np.concatenate([corners, corners + 0.3 * rng.random((batch, count, 2))], -1).astype(np.float32)


def random_scores(batch: int, classes: int, count: int) -> Any:
    """Scores of which several are equal."""
    return (np.random.default_rng(1).integers(0, 40, (batch, classes, count)) / 40).astype(np.float32)


def overlap(one: Any, others: Any) -> Any:
    """What boxes have in common with one, over what they cover together."""
    low, high = np.maximum(one[:2], others[:, :2]), np.minimum(one[2:], others[:, 2:])
    common = np.prod(np.maximum(high - low, 0), -1)
    areas = [np.prod(box[..., 2:] - box[..., :2], -1) for box in (one, others)]
    return np.where(common > 0, common / np.maximum(areas[0] + areas[1] - common, np.float32(1e-30)), 0)


def expected(boxes: Any, scores: Any, most: int, limit: float, threshold: float) -> Any:
    rows = list[tuple[int, int, int]]()
    for b, c in np.ndindex(*scores.shape[:2]):
        found = list[int]()
        left = [n for n in np.argsort(-scores[b, c], kind="stable") if scores[b, c, n] > threshold]
        while left and len(found) < most:
            found.append(left[0])
            others = overlap(boxes[b, left[0]], boxes[b, left[1:]])
            left = [n for n, one in zip(left[1:], others, strict=True) if one <= limit]
        rows += [(b, c, n) for n in found]
    return np.array(rows, np.int64).reshape(-1, 3)


@pytest.mark.parametrize(("most", "threshold"), [(3, 0.5), (10**12, 0.0), (40, 2.0), (0, 0.0)])
def test_the_best_boxes_of_each_class(most: int, threshold: float) -> None:
    boxes, scores = random_boxes(2, 40), random_scores(2, 3, 40)
    limits = np.int64([most]), np.float32([0.4]), np.float32([threshold])
    made = run("NonMaxSuppression", boxes, scores, *limits, constants=(2,))
    np.testing.assert_array_equal(made, expected(boxes, scores, most, 0.4, threshold))


def test_boxes_by_their_centres_or_by_any_two_corners() -> None:
    boxes, scores = random_boxes(1, 30), random_scores(1, 1, 30)
    wanted = expected(boxes, scores, 30, 0.0, -1)
    rest = scores, np.int64([30])
    swapped = boxes.copy()
    swapped[:, ::2] = boxes[:, ::2, [2, 3, 0, 1]]
    np.testing.assert_array_equal(run("NonMaxSuppression", swapped, *rest, constants=(2,)), wanted)
    centres = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    made = run("NonMaxSuppression", centres, *rest, constants=(2,), center_point_box=1)
    np.testing.assert_array_equal(made, wanted)


def test_without_a_threshold_boxes_of_any_number_are_picked() -> None:
    boxes = np.float32([[[0, 0, 1, 1], [2, 2, 3, 3], [4, 4, 5, 5]]])
    scores = np.float32([[[-np.inf, -1, np.nan]]])
    made = run("NonMaxSuppression", boxes, scores, np.int64([3]), constants=(2,))
    np.testing.assert_array_equal(made, [[0, 0, 1], [0, 0, 0]])


def test_boxes_that_do_not_go_with_scores_are_refused() -> None:
    boxes, scores = random_boxes(1, 5), random_scores(1, 1, 4)
    with pytest.raises(ms.RefusedModel, match=r"it has scores f32\[1, 1, 4\] for boxes f32\[1, 5, 4\]"):
        run("NonMaxSuppression", boxes, scores, np.int64([2]), constants=(2,))
    with pytest.raises(ms.RefusedModel, match="its number of boxes, `X2`, is computed from data"):
        run("NonMaxSuppression", boxes, random_scores(1, 1, 5), np.int64([2]))


def test_of_boxes_that_are_good_enough_the_best_and_their_rows() -> None:
    boxes, scores = random_boxes(1, 200)[0], random_scores(1, 1, 200)[0, 0]
    nodes = [
        node("Greater", "scores least", "good"),
        node("NonZero", "good", "places"),
        node("Squeeze", "places first", "rows"),
        node("Gather", "boxes rows", "some"),
        node("Gather", "scores rows", "its"),
        node("Unsqueeze", "some first", "boxes3"),
        node("Unsqueeze", "its both", "scores3"),
        node("NonMaxSuppression", "boxes3 scores3 most limit", "kept"),
        node("Gather", "kept last", "numbers", axis=1),
        node("Slice", "numbers zero top", "best"),
        node("Gather", "some best", "found"),
    ]
    known = {"first": np.int64([0]), "both": np.int64([0, 1]), "most": np.int64([2**62]), "limit": np.float32([0.3])}
    known |= {"least": np.float32(0.5), "last": np.int64(2), "zero": np.int64([0]), "top": np.int64([12])}
    net = ms.load_onnx(model(nodes, [value("boxes", boxes), value("scores", scores)], ["found", "numbers"], known))
    some, its = boxes[scores > 0.5], scores[scores > 0.5]
    numbers = expected(some[None], its[None, None], 200, 0.3, -1)[:, 2]
    found, kept = net(boxes, scores)
    np.testing.assert_array_equal(kept, numbers)
    np.testing.assert_array_equal(found, some[numbers[:12]])
    apart = [*nodes[:7], node("NonMaxSuppression", "boxes3 all most", "kept")]
    inputs = [value("boxes", boxes), value("scores", scores), value("all", scores[None, None])]
    with pytest.raises(ms.RefusedModel, match="data decide how many boxes there are, and otherwise how many scores"):
        ms.load_onnx(model(apart, inputs, ["kept"], known))


@pytest.mark.parametrize("count", [320, 333])
def test_scores_stay_as_they_are_and_are_looked_through_in_blocks(count: int) -> None:
    """Whole blocks, or a last one that is filled; equal scores in several blocks; a threshold that a call gives."""
    boxes, scores = random_boxes(2, count), random_scores(2, 2, count)
    inputs = [value("boxes", boxes), value("scores", scores), value("least", np.float32([0]))]
    known = {"most": np.int64([9]), "limit": np.float32([0.2])}
    suppression = node("NonMaxSuppression", "boxes scores most limit least", "kept")
    network = ms.load_onnx(model([suppression], inputs, ["kept"], known))
    for least in (0.5, 0.95, -1.0):
        made = network(boxes, scores, np.float32([least]))
        np.testing.assert_array_equal(made, expected(boxes, scores, 9, 0.2, least))
    states = [line for line in str(network.optimised).splitlines() if " begins as " in line]
    assert len(states) == 6
    assert not any(str(count) in line for line in states)


@pytest.mark.parametrize("most", [3, 7, 10**6])
def test_many_boxes_of_some_classes_are_picked_in_loops_of_more_and_more_room(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that has no room keeps its boxes for the next loop, and others go on there."""
    monkeypatch.setattr("metasched.graph.node_types.box_suppression._FIRST_ROOM", 2)
    boxes, scores = random_boxes(2, 60), random_scores(2, 3, 60)
    scores[0, 1] -= 0.9
    made = run("NonMaxSuppression", boxes, scores, np.int64([most]), np.float32([0.3]), np.float32([0]), constants=(2,))
    np.testing.assert_array_equal(made, expected(boxes, scores, most, 0.3, 0))
