"""Boxes of which none overlaps a better one: what detectors end in.

Each step of a loop looks at the next best box of each class, and picks it unless it overlaps one that was picked.
Scores stay as they are: the best of those that no step has looked at is known for each block of them, and a step looks
through one block for its box and for what is best in it from then on. The loop ends as no class has room and a box any
more, and goes on in another one where there may be many, whose room is larger. Results have room for as many boxes as
there may be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.places_that_hold import places_that_hold, room_for
from metasched.graph.errors import Unsupported
from metasched.graph.loops.building import LoopFrame, StepResults, add_loop
from metasched.graph.node_helpers.known_elements import known_elements
from metasched.graph.node_types.gathering import is_inside
from metasched.graph.node_types.padding import pad_tensor
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import declare_buffer, place_within, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

_COORDINATES = 4
# Nothing has this score: what was looked at, or is not good enough.
_GONE = "-inf"
# Room for the boxes that are picked, at first, and how many times as much there is then.
_FIRST_ROOM, _MORE_ROOM = 64, 4
# The scores of a vector, and how often a step goes through those of a block, and once through what is best in blocks.
_VECTOR, _LOOKED_THROUGH = 16, 3
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
    given = _Boxes(_scores(site, scores), _corners(site, boxes), limits, (batch, classes, count), most)
    found = _pick_one_by_one(site, given)
    return (_box_rows(site, found.picked, found.number),)


@dataclass(frozen=True)
class _Scores:
    """The scores of boxes for each image and class, of which some are not good enough.

    Attributes:
        parts: the arrays that they are computed from, by their names in programs: A is in blocks of boxes.
        met: the text of what a score meets that is good enough, for names of its block and of its place there.

    """

    parts: dict[str, GraphValue]
    met: str

    @property
    def blocks(self) -> tuple[int, int]:
        """How many blocks there are, and scores in each."""
        _, _, blocks, width = self.parts["A"].shape
        return blocks, width

    def text(self, block: str, place: str) -> str:
        """The text of the score of a box."""
        met = self.met.format(block=block, place=place)
        return f"max(A[b, c, {block}, {place}], {real(_LOWEST)}) if {met} else {_GONE}"


@dataclass(frozen=True)
class _Boxes:
    """Boxes that may be picked.

    Attributes:
        scores: of the boxes.
        corners: the least and the largest of both coordinates, for each image, boxes innermost.
        limit: the most that one may overlap another.
        sizes: how many images, classes and boxes there are.
        most: how many of a class are picked at most.

    """

    scores: _Scores
    corners: GraphValue
    limit: GraphValue
    sizes: tuple[int, int, int]
    most: int

    def each(self, *extents: int, dtype: DType = DType.F32) -> ValueType:
        """A type with such extents for each class of each image."""
        return ValueType(dtype, (*self.sizes[:2], *extents))


@dataclass(frozen=True)
class _Picked:
    """The boxes that were picked of each class, i32, as many as `number` says, i64, with room for more."""

    picked: GraphValue
    number: GraphValue


def _pick_one_by_one(site: NodeSite, given: _Boxes) -> _Picked:
    blocks, width = given.scores.blocks
    stage = f"Y[b, c, k] = max[r < {width}]({given.scores.text('k', 'r')})"
    best = site.single([stage], given.each(blocks), **given.scores.parts)

    def begin(value: float, type_: ValueType) -> GraphValue:
        return site.constant(np.full(type_.shape, value, type_.dtype.numpy))

    rooms = list(_rooms(given.most))
    states: Sequence[GraphValue] = [
        best,
        begin(np.inf, given.each()),
        begin(-1, given.each(dtype=DType.I32)),
        begin(0, given.each(_COORDINATES, rooms[0])),
        begin(0, given.each(rooms[0], dtype=DType.I32)),
        begin(0, given.each(dtype=DType.I64)),
    ]

    def step(_: str, __: GraphValue, states: Sequence[GraphValue], ___: Sequence[GraphValue]) -> StepResults:
        best, score, box = _next_best(site, given, states[:3])
        corners, picked, number = _pick_apart(site, given, (score, box), states[3:])
        goes_on = _is_one_left(site, given, score, number, picked.shape[2])
        return StepResults([best, score, box, corners, picked, number], [], goes_on)

    for room in rooms:
        best, score, box, corners, picked, number = states
        more = room - picked.shape[2]
        corners, picked = (
            pad_tensor(site, corners, {3: (0, more)}, None),
            pad_tensor(site, picked, {2: (0, more)}, None),
        )
        condition = _is_one_left(site, given, score, number, room)
        begun = [best, score, box, corners, picked, number]
        states = add_loop(site, LoopFrame(begun, most=given.sizes[2], condition=condition), step).states
    return _Picked(states[4], states[5])


def _rooms(most: int) -> Iterator[int]:
    """For how many boxes of a class there is room in each of some loops: a step goes through all of it."""
    room = _FIRST_ROOM
    while 2 * room < most:
        yield room
        room *= _MORE_ROOM
    yield most


def _is_one_left(site: NodeSite, given: _Boxes, score: GraphValue, number: GraphValue, room: int) -> GraphValue:
    """Whether a class has a box that no step looked at, and room for it. As soon as one has no room more steps would
    lose its boxes, unless it is to have no more.
    """
    full = 2 if room < given.most else 0
    of_class = f"i32({full}) if K[b, c] >= {room} else i32(1) if A[b, c] > {_GONE} else i32(0)"
    return site.single(
        [
            "T: i32[1]",
            f"T[z] = max[b < {given.sizes[0]}, c < {given.sizes[1]}]({of_class})",
            "Y[] = T[0] == 1",
        ],
        ValueType(DType.BOOL, ()),
        A=score,
        K=number,
    )


def _next_best(
    site: NodeSite, given: _Boxes, states: Sequence[GraphValue]
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """The best score of each block after the next box of each class, and its score and place.

    `states` are the same for the box before it. Of equal scores that of the first box is better.
    """
    best, score, box = states
    (blocks, width), count = given.scores.blocks, given.sizes[2]
    inside = is_inside("B[b, c]", blocks)
    place, own, equal = f"i32(B[b, c] * {width} + r)", "W[b, c, r]", "W[b, c, r] == G[b, c]"
    later = f"(G[b, c] < V[b, c] or {place} > E[b, c])"
    stages = [
        declare_buffer("B", given.each(dtype=DType.I64)),
        declare_buffer("W", given.each(width)),
        declare_buffer("R", given.each()),
        f"G[b, c] = max[k < {blocks}](M[b, c, k])",
        f"B[b, c] = min[k < {blocks}](k if M[b, c, k] == G[b, c] else {blocks})",
        f"{own} = ({given.scores.text('B[b, c]', 'r')}) if {inside} else {_GONE}",
        f"X[b, c] = min[r < {width}]({place} if {equal} and {later} else i32({count}))",
        f"R[b, c] = max[r < {width}]({own} if {own} < G[b, c] or {equal} and {place} > X[b, c] else {_GONE})",
        "N[b, c, k] = R[b, c] if k == B[b, c] else M[b, c, k]",
    ]
    outputs = {"N": best.type, "G": score.type, "X": box.type}
    made = site.program(stages, outputs, M=best, V=score, E=box, **given.scores.parts)
    return made[0], made[1], made[2]


def _pick_apart(
    site: NodeSite, given: _Boxes, next_: tuple[GraphValue, GraphValue], states: Sequence[GraphValue]
) -> tuple[GraphValue, GraphValue, GraphValue]:
    """Corners, boxes and numbers of those that are picked, with the next of each class, of a score and at a place,
    where it overlaps none of them by more than the limit: by what they have in common over what they cover together.

    `states` are the same without it.
    """
    (score, box), (corners, picked, number) = next_, states
    room = picked.shape[2]
    widths = [
        f"max(min(Q[b, c, {k + 2}], D[b, c, {k + 2}, s]) - max(Q[b, c, {k}], D[b, c, {k}, s]), 0.0)" for k in (0, 1)
    ]
    area = "(D[b, c, 2, s] - D[b, c, 0, s]) * (D[b, c, 3, s] - D[b, c, 1, s])"
    its_area = "(Q[b, c, 2] - Q[b, c, 0]) * (Q[b, c, 3] - Q[b, c, 1])"
    common = "U[b, c, s]"
    overlaps = f"{common} > 0.0 and {common} / ({area} + {its_area} - {common}) > L[]"
    stages = [
        declare_buffer("Q", given.each(_COORDINATES)),
        f"Q[b, c, k] = C[b, k, {place_within('X[b, c]', given.sizes[2])}]",
        declare_buffer("U", given.each(room)),
        f"{common} = {widths[0]} * {widths[1]}",
        declare_buffer("O", given.each(dtype=DType.I32)),
        # Places that nothing is in have boxes of no size, which overlap none.
        f"O[b, c] = max[s < {room}](i32(1) if {overlaps} else i32(0))",
        declare_buffer("Z", given.each(dtype=DType.I64)),
        f"Z[b, c] = K[b, c] if A[b, c] > {_GONE} and O[b, c] == 0 and K[b, c] < {room} else -1",
        "F[b, c, k, s] = Q[b, c, k] if s == Z[b, c] else D[b, c, k, s]",
        "J[b, c, s] = X[b, c] if s == Z[b, c] else I[b, c, s]",
        "N[b, c] = K[b, c] + (1 if Z[b, c] >= 0 else 0)",
    ]
    outputs = {"F": corners.type, "J": picked.type, "N": number.type}
    arrays = {"A": score, "X": box, "D": corners, "I": picked, "K": number, "C": given.corners, "L": given.limit}
    made = site.program(stages, outputs, **arrays)
    return made[0], made[1], made[2]


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


def _scores(site: NodeSite, scores: GraphValue) -> _Scores:
    """The scores of boxes that are there, above the threshold where there is one."""
    threshold, parts = site.optional(4), {"A": _blocks_of(site, scores)}
    element, width = "A[b, c, {block}, {place}]", parts["A"].shape[3]
    least = None if threshold is None else known_elements(site.builder, threshold)
    if threshold is None:
        met = [f"{element} >= {_GONE}"]  # not a number is not
    elif least is not None:
        met = [f"{element} > {real(float(least.flat[0]))}"]
    else:
        parts["T"], met = site.view(threshold, ()), [f"{element} > T[]"]
    if scores.count is not None:
        parts["S"] = site.view(scores.count.number, ())
        met.append(f"{{block}} * {width} + {{place}} < S[]")
    return _Scores(parts, " and ".join(met))


def _blocks_of(site: NodeSite, scores: GraphValue) -> GraphValue:
    """Scores in blocks: whole vectors that are as many as their elements, if there is such a division; otherwise the
    last block is filled with what is no number."""
    batch, classes, count = scores.shape
    middle = math.sqrt(count / _LOOKED_THROUGH)
    widths = [n for n in range(_VECTOR, count + 1, _VECTOR) if count % n == 0 and middle / 4 <= n <= middle * 4]
    if widths:
        width = min(widths, key=lambda n: abs(math.log(n / middle)))
        return site.view(replace(scores, count=None), (batch, classes, count // width, width))
    width = max(_VECTOR, round(middle / _VECTOR) * _VECTOR)
    place = f"k * {width} + r"
    type_ = ValueType(DType.F32, (batch, classes, -(-count // width), width))
    stage = f"Y[b, c, k, r] = A[b, c, {place}] if {place} < {count} else inf - inf"
    return site.single([stage], type_, A=scores)


def _box_rows(site: NodeSite, picked: GraphValue, number: GraphValue) -> GraphValue:
    """Rows of image, class and box for what was picked, in this order and that of the steps, and zeros behind."""
    batch, classes, most = picked.shape
    room = batch * classes * most
    holds = site.single(["Y[b, c, s] = s < K[b, c]"], ValueType(DType.BOOL, picked.shape), K=number)
    found = places_that_hold(site, site.view(holds, (room,)), room_for(room))
    place = place_within("I[p]", room)
    image, class_ = f"{place} // {classes * most}", f"{place} // {most} % {classes}"
    row = f"({image} if d == 0 else {class_} if d == 1 else i64(A[{image}, {class_}, {place} % {most}]))"
    made = site.single(
        [f"Y[p, d] = {row} if I[p] < {room} else 0"],
        ValueType(DType.I64, (room_for(room), 3)),
        A=picked,
        I=found.places,
    )
    return replace(made, count=ValueCount(found.number))
