"""Reads whose lanes are in another order than memory, of which some neighbours make up all: vectors, and shuffles.

`B[4*k + l % 4, j + l // 4]` over 64 lanes `l` is four rows of 16 neighbours. Loading these and shuffling takes a few
instructions, where a gather takes one load for each lane. So it is with lanes that are near one another, such as
`A[2*l]` and `A[l // 4 * 4]`: all from the first to the last are loaded, and those between are not used.
"""

from __future__ import annotations

from collections.abc import Sequence

from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import SSAValue, lane_list, memory_text
from metasched.compiler.policy import (
    LANES_PER_PIECE,
    LEAST_RUN_LANES,
    MOST_PIECES,
    MOST_RUNS,
    MOST_SHARED_ELEMENTS,
    MOST_SPREAD,
)
from metasched.dtypes import DType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Runs:
    """Where the runs start and how long they are, in elements, and which element of all of them each lane takes.

    `read` elements of a run are in bounds, the first ones.
    """

    starts: tuple[int, ...]
    length: int
    picks: tuple[int, ...]
    read: int


@dataclass(frozen=True)
class Piece:
    """The lanes from `first` up to `end`, which read neighbours from `start` on, in elements."""

    start: int
    first: int
    end: int


def find_runs(offsets: Sequence[int]) -> Runs | None:
    """The runs that lanes read at `offsets`, if they are few, as long as one another and no element is unused."""
    distinct = sorted(set(offsets))
    starts = [at for n, at in enumerate(distinct) if n == 0 or distinct[n - 1] != at - 1]
    count, length = len(starts), len(distinct) // len(starts)
    whole = [start + n for start in starts for n in range(length)]
    if count > MOST_RUNS or count & (count - 1) or length < LEAST_RUN_LANES or whole != distinct:
        return None
    place = {at: n for n, at in enumerate(distinct)}
    vector = 1 << (length - 1).bit_length() if count == 1 else length
    return Runs(tuple(starts), vector, tuple(place[at] for at in offsets), length)


def find_span(offsets: Sequence[int]) -> Runs | None:
    """All from the first to the last that lanes read at `offsets` as one run, if they are near one another."""
    first = min(offsets)
    span = max(offsets) - first + 1
    if span > MOST_SPREAD * len(offsets) or len(offsets) < LEAST_RUN_LANES:
        return None
    return Runs((first,), 1 << (span - 1).bit_length(), tuple(at - first for at in offsets), span)


def find_splats(offsets: Sequence[int], block: int) -> tuple[int, ...] | None:
    """The element that each `block` of lanes reads, where all of its lanes read one; None where some do not."""
    if len(offsets) % block:
        return None
    blocks = [offsets[n : n + block] for n in range(0, len(offsets), block)]
    return tuple(lanes[0] for lanes in blocks) if all(len(set(lanes)) == 1 for lanes in blocks) else None


def find_shared_elements(offsets: Sequence[int]) -> tuple[int, ...] | None:
    """The elements that lanes read at `offsets`, where many lanes share each; None where they are more."""
    distinct = tuple(dict.fromkeys(offsets))
    return distinct if len(distinct) <= min(MOST_SHARED_ELEMENTS, len(offsets) // 2) else None


def find_pieces(offsets: Sequence[int]) -> tuple[Piece, ...] | None:
    """The neighbours, in the order of memory, that lanes read at `offsets` piece by piece, if those are few."""
    starts = [lane for lane, at in enumerate(offsets) if lane == 0 or at != offsets[lane - 1] + 1]
    if len(starts) > min(MOST_PIECES, len(offsets) // LANES_PER_PIECE):
        return None
    ends = [*starts[1:], len(offsets)]
    return tuple(Piece(offsets[first], first, end) for first, end in zip(starts, ends, strict=True))


def lane_range_mask(first: int, end: int, width: int) -> str:
    """The mask of the lanes from `first` up to `end`."""
    lanes = ", ".join(f"i1 {'true' if first <= n < end else 'false'}" for n in range(width))
    return f"<{width} x i1> <{lanes}>"


def shuffle_runs(text: FunctionText, parts: Sequence[str], dtype: DType, runs: Runs) -> SSAValue:
    """Lanes picked from a vector for each run, which are joined two by two until there are two."""
    length, shuffle = runs.length, "shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>"
    while len(parts) > 2:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        type_, picks = memory_text(dtype, length), lane_list(range(2 * length))
        parts = [text.emit_pure(shuffle.format(type_, a, b, 2 * length, picks)) for a, b in pairs]
        length *= 2
    a, b = parts if len(parts) == 2 else (*parts, "poison")
    width, picks = len(runs.picks), lane_list(runs.picks)
    return SSAValue(text.emit_pure(shuffle.format(memory_text(dtype, length), a, b, width, picks)), dtype, width)


def join_splats(text: FunctionText, elements: Sequence[SSAValue], dtype: DType, block: int) -> SSAValue:
    """A vector of which each `block` of lanes is one of the elements."""
    type_, count = memory_text(dtype, len(elements)), len(elements)
    vector = "poison"
    for n, element in enumerate(elements):
        vector = text.emit_pure(f"insertelement {type_} {vector}, {element.typed}, i32 {n}")
    width, picks = count * block, lane_list([n for n in range(count) for _ in range(block)])
    found = text.emit_pure(f"shufflevector {type_} {vector}, {type_} poison, <{width} x i32> <{picks}>")
    return SSAValue(found, dtype, width)


def blend_elements(text: FunctionText, elements: Sequence[SSAValue], dtype: DType, picks: Sequence[int]) -> SSAValue:
    """A vector whose lanes each take one of a few elements: a broadcast, and others under masks that are constants."""
    width = len(picks)
    type_, zeros = memory_text(dtype, width), lane_list([0] * width)
    vector = ""
    for n, element in enumerate(elements):
        first = text.emit_pure(f"insertelement {type_} poison, {element.typed}, i32 0")
        everywhere = text.emit_pure(f"shufflevector {type_} {first}, {type_} poison, <{width} x i32> <{zeros}>")
        lanes = ", ".join(f"i1 {'true' if pick == n else 'false'}" for pick in picks)
        vector = (
            text.emit_pure(f"select <{width} x i1> <{lanes}>, {type_} {everywhere}, {type_} {vector}")
            if n
            else everywhere
        )
    return SSAValue(vector, dtype, width)
