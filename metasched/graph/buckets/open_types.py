"""The types of what a model returns whose sizes are ranges: which dimensions have these sizes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial

from metasched.graph.buckets.size_range import OpenType, SizeRange
from metasched.graph.errors import RefusedModel
from metasched.graph.value_type import ValueType

LOGGER = logging.getLogger(__name__)

_Types = Mapping[str, ValueType]
_Sizes = Mapping[str, int]
_Ranges = Mapping[str, SizeRange]


def open_types(ranges: _Ranges, largest: _Types, types_at: Callable[[_Sizes], _Types]) -> dict[str, OpenType]:
    """Types by what they are at the largest sizes and, by `types_at`, at others, which raises RefusedModel for sizes
    that the model has not: at ones next to the largest, and at ones far from them, as `h // 8` is the same at most
    neighbours. All dimensions are "?" where it has none of those that are tried.
    """
    found = [*other_sizes(ranges)]
    # Along a size of one, models broadcast.
    far = [sizes for sizes in found if all(size > 1 or ranges[name].high == 1 for name, size in sizes.items())]
    found.sort(key=partial(_count_alike, ranges))
    samples = [*_first_sample(found, types_at), *_first_sample(far[::-1], types_at)]
    if not samples:
        return {name: OpenType(type_.dtype, ("?",) * type_.rank) for name, type_ in largest.items()}
    sizes = {name: (range_.high, *(at[name] for at, _ in samples)) for name, range_ in ranges.items()}
    return {name: _open_type(type_, [types[name] for _, types in samples], sizes) for name, type_ in largest.items()}


def _count_alike(ranges: _Ranges, sizes: _Sizes) -> int:
    """How many sizes are as those of other ranges, here and at the largest: these are not told apart."""
    return len(sizes) - len({(ranges[name].high, size) for name, size in sizes.items()})


def _first_sample(tried: Iterable[_Sizes], types_at: Callable[[_Sizes], _Types]) -> Iterator[tuple[_Sizes, _Types]]:
    """The first sizes that the model has, with its types there, if any are."""
    for sizes in tried:
        try:
            types = types_at(sizes)
        except RefusedModel as reason:
            LOGGER.info("the model is not read at the sizes %s: %s", sizes, reason)
        else:
            yield sizes, types
            return


def _open_type(large: ValueType, others: Sequence[ValueType], sizes: Mapping[str, tuple[int, ...]]) -> OpenType:
    if any(other.rank != large.rank for other in others):
        return OpenType(large.dtype, ("?",) * large.rank)
    extents = zip(large.shape, *(other.shape for other in others), strict=True)
    return OpenType(large.dtype, tuple(_dimension(extent, sizes) for extent in extents))


def _dimension(extent: tuple[int, ...], sizes: Mapping[str, tuple[int, ...]]) -> int | str:
    """A dimension by the size that it is, or is a multiple or a part of, from what both are in several graphs."""
    if len(set(extent)) == 1:
        return extent[0]
    ratios = {
        name: Fraction(extent[0], own[0])
        for name, own in sizes.items()
        if all(here * own[0] == extent[0] * there for here, there in zip(extent, own, strict=True))
    }
    name = min(ratios, key=lambda name: ratios[name] != 1, default="?")
    factor = ratios.get(name, Fraction(1))
    times, part = ("" if n == 1 else str(n) for n in (factor.numerator, factor.denominator))
    return (times and f"{times}*") + name + (part and f"/{part}")


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
