"""Boxes of which none overlaps a better one: what detectors end in.

Each step of a loop picks for each class the box with the highest score, and takes away those that overlap it. It ends
as no class has a box any more. Results have room for as many boxes as there may be. Of many scores, few of which are
good enough, those are taken first, and steps go through a part of the room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.places_that_hold import places_in_rows, places_that_hold, room_for
from metasched.graph.errors import Unsupported
from metasched.graph.loops.building import LoopFrame, LoopPlaces, StepResults, add_loop
from metasched.graph.node_types.branches import build_branch
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import declare_buffer, place_within, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

_COORDINATES = 4
# Nothing has this score: what has it was picked, taken away, or not good enough.
_GONE = "-inf"
# More scores than these are worth looking for those that are good enough first: with room for all, or for a part.
_MANY, _FEWER = 1 << 15, 8
_LOWEST = float(np.finfo(np.float32).min)


@node_type("NonMaxSuppression", counts=True)
def non_max_suppression(site: NodeSite) -> Results:
    boxes, scores = site.operand(0), site.operand(1)
    batch, count = _sizes(site, boxes, scores)
    classes = scores.shape[1]
    most = 0 if site.optional(2) is None else min(site.integers(2, "number of boxes")[0], count)
    if most <= 0 or not scores.type.size:
        return (site.constant(np.empty((0, 3), np.int64), DType.I64),)
    limits = site.view(site.optional(3) or site.constant(np.zeros(1, np.float32)), ())
    all_boxes = _Candidates(_good_enough(site, scores), _corners(site, boxes), None)
    is_cut = site.optional(4) is not None or scores.count is not None
    return (_suppress_boxes(site, all_boxes, limits, most, list(_rooms(batch * classes, count)) if is_cut else []),)


@dataclass(frozen=True)
class _Candidates:
    """Boxes that may be picked.

    Attributes:
        scores: for each image and class, boxes innermost; of those that may not be picked as nothing has.
        corners: the least and the largest of both coordinates, for each image, boxes innermost; for each class, too,
            where each has boxes of its own.
        places: which box each is, where each class has boxes of its own.

    """

    scores: GraphValue
    corners: GraphValue
    places: GraphValue | None

    def corner(self, number: int | str, box: str) -> str:
        """The text of a coordinate of a box."""
        return f"C[b, {number}, {box}]" if self.places is None else f"C[b, c, {number}, {box}]"


def _rooms(classes: int, count: int) -> Iterator[int]:
    """How many boxes of each class may be good enough: fewer and fewer of them, as long as that saves something."""
    while classes * count > _MANY:
        count = -(-count // _FEWER)
        yield count


def _suppress_boxes(
    site: NodeSite, given: _Candidates, limits: GraphValue, most: int, rooms: Sequence[int]
) -> GraphValue:
    """Rows for the boxes that are picked. Where few are good enough, of less and less `rooms` those are taken first."""
    if not rooms:
        return _pick_one_by_one(site, given, limits, most)
    holds = site.elementwise(f"{{0}} > {_GONE}", given.scores, dtype=DType.BOOL)
    batch, classes, _ = holds.shape

    def few(_: Sequence[GraphValue], __: str) -> list[GraphValue]:
        return [_pick_one_by_one(site, _select_candidates(site, given, holds, rooms[-1]), limits, min(most, rooms[-1]))]

    def otherwise(_: Sequence[GraphValue], __: str) -> list[GraphValue]:
        return [_suppress_boxes(site, given, limits, most, rooms[:-1])]

    is_few = site.single(
        [
            declare_buffer("T", ValueType(DType.I64, (batch, classes))),
            f"T[b, c] = sum[n < {holds.shape[2]}](i64(A[b, c, n]))",
            declare_buffer("M", ValueType(DType.I64, (1,))),
            f"M[z] = max[b < {batch}, c < {classes}](T[b, c])",
            f"Y[] = M[0] <= {rooms[-1]}",
        ],
        ValueType(DType.BOOL, ()),
        A=holds,
    )
    return build_branch(site, is_few, [few, otherwise])[0]


def _select_candidates(site: NodeSite, given: _Candidates, holds: GraphValue, room: int) -> _Candidates:
    """The boxes of each class that are good enough, in their order, with room for so many."""
    batch, classes, count = holds.shape
    places = places_in_rows(site, holds, room).places
    box = place_within("I[b, c, p]", count)
    type_ = ValueType(DType.F32, (batch, classes, room))
    stage = f"Y[b, c, p] = A[b, c, {box}] if I[b, c, p] < {count} else {_GONE}"
    scores = site.single([stage], type_, A=given.scores, I=places)
    sides = ValueType(DType.F32, (batch, classes, _COORDINATES, room))
    corners = site.single([f"Y[b, c, k, p] = A[b, k, {box}]"], sides, A=given.corners, I=places)
    return _Candidates(scores, corners, places)


def _pick_one_by_one(site: NodeSite, given: _Candidates, limits: GraphValue, most: int) -> GraphValue:
    """Rows for the boxes that are picked, at most so many of each class."""
    batch, classes, _ = given.scores.shape
    per_class = ValueType(DType.I64, (batch, classes))

    def step(_: str, __: GraphValue, states: Sequence[GraphValue], ___: Sequence[GraphValue]) -> StepResults:
        (left,) = states
        picked = _pick_best(site, left, per_class)
        some = site.single(
            [
                "T: i64[1]",
                f"T[z] = max[b < {batch}, c < {classes}](A[b, c])",
                "Y[] = T[0] >= 0",
            ],
            ValueType(DType.BOOL, ()),
            A=picked,
        )
        return StepResults([_drop_overlaps(site, left, picked, given, limits)], [picked], some)

    found = add_loop(site, LoopFrame([given.scores], (), [LoopPlaces()], most), step)
    return _box_rows(site, found.values[0], (batch, classes, most), given.places)


def _sizes(site: NodeSite, boxes: GraphValue, scores: GraphValue) -> tuple[int, int]:
    """How many images there are, and boxes in each. Raises Unsupported where boxes and scores do not go together."""
    f32 = {boxes.type.dtype, scores.type.dtype} == {DType.F32}
    if not f32 or boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != _COORDINATES:
        raise Unsupported(f"its boxes are {boxes.type}, and its scores {scores.type}")
    if boxes.shape[:2] != (scores.shape[0], scores.shape[2]):
        raise Unsupported(f"it has scores {scores.type} for boxes {boxes.type}")
    numbers = [_count_along(boxes, 1), _count_along(scores, 2)]
    known = [number for number in numbers if number is not None]
    if len(known) == 1 or (known and not site.builder.is_same_value(*known)):
        raise Unsupported("data decide how many boxes there are, and otherwise how many scores")
    return boxes.shape[0], boxes.shape[1]


def _count_along(x: GraphValue, axis: int) -> GraphValue | None:
    """What says how many boxes there are, if data decide it. Raises Unsupported for another dimension than theirs."""
    if x.count is None:
        return None
    if x.count.axis != axis:
        raise Unsupported(f"data decide how many elements {x.type} has along its dimension {x.count.axis}")
    return x.count.number


def _corners(site: NodeSite, boxes: GraphValue) -> GraphValue:
    """The least and the largest of both coordinates of each box, boxes innermost."""
    batch, count, _ = boxes.shape
    if site.flag("center_point_box"):
        low, high = "A[b, n, k % 2] - A[b, n, k % 2 + 2] / 2.0", "A[b, n, k % 2] + A[b, n, k % 2 + 2] / 2.0"
    else:
        low, high = (f"{f}(A[b, n, k % 2], A[b, n, k % 2 + 2])" for f in ("min", "max"))
    type_ = ValueType(DType.F32, (batch, _COORDINATES, count))
    return site.single([f"Y[b, k, n] = {low} if k < 2 else {high}"], type_, A=boxes)


def _good_enough(site: NodeSite, scores: GraphValue) -> GraphValue:
    """The scores of boxes that are there, above the threshold where there is one."""
    threshold = site.optional(4)
    given = {} if threshold is None else {"T": site.view(threshold, ())}
    met = [f"A[b, c, n] >= {_GONE}" if threshold is None else "A[b, c, n] > T[]"]  # not a number is neither
    if scores.count is not None:
        given["S"] = site.view(scores.count.number, ())
        met.append("n < S[]")
    score = f"max(A[b, c, n], {real(_LOWEST)})"
    stage = f"Y[b, c, n] = {score} if {' and '.join(met)} else {_GONE}"
    return site.single([stage], scores.type, A=scores, **given)


def _pick_best(site: NodeSite, left: GraphValue, per_class: ValueType) -> GraphValue:
    """The box of each class that has the highest score, the first of equal ones; -1 where there is none left."""
    count = left.shape[2]
    stages = [
        declare_buffer("T", ValueType(DType.F32, per_class.shape)),
        f"T[b, c] = max[n < {count}](A[b, c, n])",
        declare_buffer("F", per_class),
        f"F[b, c] = min[n < {count}](n if A[b, c, n] == T[b, c] else {count})",
        f"Y[b, c] = F[b, c] if T[b, c] > {_GONE} and F[b, c] < {count} else -1",
    ]
    return site.single(stages, per_class, A=left)


def _drop_overlaps(
    site: NodeSite, left: GraphValue, picked: GraphValue, given: _Candidates, limits: GraphValue
) -> GraphValue:
    """Scores without those of the boxes that were picked, and of those that overlap one of them by more than a limit:
    by what they have in common over what they cover together.
    """
    batch, classes, count = left.shape
    own = place_within("P[b, c]", count)
    sides = ValueType(DType.F32, (batch, classes, _COORDINATES))
    corners = [given.corner(k, "n") for k in range(_COORDINATES)]
    widths = [f"max(min(Q[b, c, {k + 2}], {corners[k + 2]}) - max(Q[b, c, {k}], {corners[k]}), 0.0)" for k in range(2)]
    area = f"({corners[2]} - {corners[0]}) * ({corners[3]} - {corners[1]})"
    its_area = "(Q[b, c, 2] - Q[b, c, 0]) * (Q[b, c, 3] - Q[b, c, 1])"
    common = "I[b, c, n]"
    overlaps = f"{common} > 0.0 and {common} / ({area} + {its_area} - {common}) > L[]"
    stages = [
        declare_buffer("Q", sides),
        f"Q[b, c, k] = {given.corner('k', own)}",
        declare_buffer("I", left.type),
        f"{common} = {widths[0]} * {widths[1]}",
        f"Y[b, c, n] = {_GONE} if P[b, c] >= 0 and (n == P[b, c] or {overlaps}) else A[b, c, n]",
    ]
    return site.single(stages, left.type, A=left, P=picked, C=given.corners, L=limits)


def _box_rows(site: NodeSite, picked: GraphValue, sizes: tuple[int, int, int], places: GraphValue | None) -> GraphValue:
    """Rows of image, class and box for what steps picked, in this order and that of the steps, and zeros behind."""
    batch, classes, most = sizes
    room = batch * classes * most
    steps = "True" if picked.count is None else "s < S[]"
    holds = site.single(
        [f"Y[b, c, s] = A[s, b, c] >= 0 and {steps}"],
        ValueType(DType.BOOL, (batch, classes, most)),
        A=picked,
        S=None if picked.count is None else picked.count.number,
    )
    found = places_that_hold(site, site.view(holds, (room,)), room_for(room))
    place = place_within("I[p]", room)
    image, class_ = f"{place} // {classes * most}", f"{place} // {most} % {classes}"
    box = f"A[{place} % {most}, {image}, {class_}]"
    if places is not None:
        box = f"B[{image}, {class_}, {place_within(box, places.shape[2])}]"
    row = f"({image} if d == 0 else {class_} if d == 1 else {box})"
    made = site.single(
        [f"Y[p, d] = {row} if I[p] < {room} else 0"],
        ValueType(DType.I64, (room_for(room), 3)),
        A=picked,
        I=found.places,
        B=places,
    )
    return replace(made, count=ValueCount(found.number))
