"""The types of what a model returns whose sizes are ranges: which dimensions have these sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

from metasched.graph.buckets.size_range import OpenType, SizeRange
from metasched.graph.errors import RefusedModel
from metasched.graph.value_type import ValueType

LOGGER = logging.getLogger(__name__)

_Types = Mapping[str, ValueType]
_Sizes = Mapping[str, int]
_Ranges = Mapping[str, SizeRange]


def open_types(ranges: _Ranges, largest: _Types, types_at: Callable[[_Sizes], _Types]) -> dict[str, OpenType]:
    """Types by what they are at the largest sizes and, by `types_at`, at others, which raises RefusedModel for sizes
    that the model has not. All dimensions are "?" where it has none of those that are tried.
    """
    for sizes in other_sizes(ranges):
        try:
            others = types_at(sizes)
        except RefusedModel as reason:
            LOGGER.info("the model is not read at the sizes %s: %s", sizes, reason)
        else:
            return {name: _open_type(type_, others[name], ranges, sizes) for name, type_ in largest.items()}
    return {name: OpenType(type_.dtype, ("?",) * type_.rank) for name, type_ in largest.items()}


def _open_type(large: ValueType, other: ValueType, ranges: _Ranges, sizes: _Sizes) -> OpenType:
    named = {(range_.high, sizes[name]): name for name, range_ in reversed(list(ranges.items()))}
    pairs = zip(large.shape, other.shape, strict=True)
    return OpenType(large.dtype, tuple(one if one == two else named.get((one, two), "?") for one, two in pairs))


def other_sizes(ranges: _Ranges) -> Iterator[dict[str, int]]:
    """Other sizes than the largest, nearest first: a model may have only even ones, or multiples of 32.

    As far as there is room they differ from range to range, so that they tell which one a dimension goes with.
    """
    numbered = list(enumerate(ranges.items(), 1))
    room = max(len(range_.sizes) - 1 for range_ in ranges.values())
    for exponent in range(max(room.bit_length(), 1)):
        back = 2**exponent
        yield {name: range_.sizes[max(-1 - number * back, -len(range_.sizes))] for number, (name, range_) in numbered}
    yield {name: range_.largest_up_to(range_.high >> number) for number, (name, range_) in numbered}
    yield {name: range_.low for name, range_ in ranges.items()}
    yield {name: range_.buckets[0] for name, range_ in ranges.items()}
