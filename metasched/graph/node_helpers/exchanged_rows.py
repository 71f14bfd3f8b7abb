"""Rows in order by exchanges of numbers of 64 bits, each of which is an element and its place.

No two of them are equal, so that any network of exchanges keeps equal elements in their order. An i64 has room for an
integer and its place; an f64 for an f32, as the place changes it by less than half of the distance to the next one.

Blocks are ranked by counting, and merged in pairs by Batcher's bitonic network (1968, "Sorting networks and their
applications"): the second block of a pair is turned around, and elements are exchanged at half of the length of both,
at a quarter, and so on. Each of these levels reads both halves of all there is, and puts what it has exchanged side by
side (Stone 1971, "Parallel processing with the perfect shuffle"): so one kernel does for all of them. Just what begins
a merge, which moves the elements that meet to opposite halves, is one of its own for each length. Where few elements of
a row are wanted they are picked one by one, by the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.merged_blocks import RowOrder
from metasched.graph.node_helpers.moved_elements import stack_values
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, indices, place_within, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# The elements of a block, the bits of a place, those of an integer beside one, and half of those of an i64.
_BLOCK, _PLACE_BITS, _SMALL_BITS, _HALF = 32, 24, 38, 32
# What zero, infinity and NaN are as numbers of f64, and what is behind the end of a row. A number is `_STEP` times its
# place larger than its element, or smaller by a place from the end.
_ZERO, _INFINITY, _NAN, _BEHIND = 2.0**-900, 2.0**200, 2.0**300, 2.0**400
_STEP = 2.0**-50
# What a kernel takes by itself, and an element in its block, in a merge, and in a level of one, in ranks' comparisons.
_OF_A_KERNEL, _OF_A_BLOCK, _OF_A_MERGE, _OF_A_LEVEL = 1 << 10, 25, 4, 1


def can_exchange(dtype: DType, extent: int) -> bool:
    """Whether elements and their places fit in numbers of 64 bits; integers of 64 bits in two of them."""
    small = dtype.compute is DType.F32 if dtype.is_float else dtype.is_integer and dtype.compute is dtype
    return small and extent <= 1 << _PLACE_BITS


def fits_beside_place(dtype: DType, extent: int) -> bool:
    """Whether an element and its place fit in one number, whatever the element is."""
    return can_exchange(dtype, extent) and (dtype.is_float or dtype.bits < DType.I64.bits)


def exchange_cost(extent: int, rows: int) -> int:
    """What it takes to sort so many rows, in comparisons of ranks."""
    size = _padded(extent)
    lengths = range(_BLOCK.bit_length(), size.bit_length())
    kernels = 2 + sum(2 + levels // 2 for levels in lengths)
    return kernels * _OF_A_KERNEL + rows * size * (_OF_A_BLOCK + sum(_OF_A_MERGE + _OF_A_LEVEL * n for n in lengths))


def sort_by_exchanges(
    site: NodeSite, x: GraphValue, axis: int, k: int, order: RowOrder
) -> tuple[GraphValue, GraphValue]:
    """The first `k` elements along an axis, and their places, i64; of equal ones that of the lower place is first."""
    rows = _rows_along(site, x, axis)
    if fits_beside_place(order.dtype, rows.extent):
        return _sort_at_once(rows, x, k, _keys_of(rows, order))
    # By the lower half of their bits, and then by the upper one: what is equal there stays in its order.
    low = _IntegerKeys(rows, order, f"{{0}} & {(1 << _HALF) - 1}")
    places = low.places(rows.sort(low.numbers(x)), rows.extent)
    high = _IntegerKeys(rows, order, f"{{0}} >> {_HALF}")
    turns = high.places(rows.sort(high.numbers(x, places)), k)
    return rows.first_elements(x, rows.pick(places, turns), k)


def sort_small(site: NodeSite, x: GraphValue, axis: int, k: int, order: RowOrder) -> tuple[GraphValue, GraphValue]:
    """As `sort_by_exchanges`, of integers of 64 bits that are small."""
    rows = _rows_along(site, x, axis)
    return _sort_at_once(rows, x, k, _IntegerKeys(rows, order))


def pick_by_numbers(site: NodeSite, x: GraphValue, axis: int, k: int, order: RowOrder) -> tuple[GraphValue, GraphValue]:
    """As `sort_by_exchanges`, of few elements of at most 32 bits: each is the least above the one before."""
    rows = _rows_along(site, x, axis)
    keys = _keys_of(rows, order)
    numbers, least = keys.numbers(x, room=rows.extent), rows.at("Y", "s")
    found = list[GraphValue]()
    for _ in range(k):
        own, last = rows.at("K", "r"), rows.at("L", "0")
        term = own if not found else f"{own} if {own} > {last} else {keys.last}"
        stage = f"{least} = min[r < {rows.extent}]({term})"
        found.append(site.single([stage], rows.type(keys.dtype, 1), K=numbers, L=found[-1] if found else None))
    picked = stack_values(site, [site.view(one, rows.shape()) for one in found], axis)
    return rows.first_elements(x, keys.places(picked, k), k)


def are_small(site: NodeSite, x: GraphValue) -> GraphValue:
    """Whether all of some integers of 64 bits fit beside their places in one number."""
    flat, most = site.view(x, (x.type.size,)), 1 << _SMALL_BITS
    low = "" if x.type.dtype.is_unsigned else f" and A[r] >= -{most}"
    stages = [
        "M: i32[1]",
        f"M[z] = min[r < {x.type.size}](i32(1) if A[r] < {most}{low} else i32(0))",
        "Y[] = M[0] == 1",
    ]
    return site.single(stages, ValueType(DType.BOOL, ()), A=flat)


def _padded(extent: int) -> int:
    return max(_BLOCK, 1 << (extent - 1).bit_length())


def _rows_along(site: NodeSite, x: GraphValue, axis: int) -> _Rows:
    return _Rows(site, x.shape[:axis], x.shape[axis + 1 :], x.shape[axis])


def _keys_of(rows: _Rows, order: RowOrder) -> _Keys:
    return _FloatKeys(rows, order) if order.dtype.is_float else _IntegerKeys(rows, order)


def _sort_at_once(rows: _Rows, x: GraphValue, k: int, keys: _Keys) -> tuple[GraphValue, GraphValue]:
    return rows.first_elements(x, keys.places(rows.sort(keys.numbers(x)), k), k)


@dataclass(frozen=True)
class _Keys(ABC):
    """Numbers of 64 bits for the elements of rows, whose order is theirs."""

    rows: _Rows
    order: RowOrder

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """The type of the numbers."""

    @property
    @abstractmethod
    def last(self) -> str:
        """The text of a number that is no less than that of any element."""

    @abstractmethod
    def behind(self, place: str) -> str:
        """The text of the number of what is behind the end of a row, which comes after all."""

    @abstractmethod
    def key(self, element: str) -> str:
        """The text of the number of an element at the place `i`."""

    @abstractmethod
    def place_stages(self, key: str, made: str, count: int) -> list[str]:
        """Stages that find the places of so many numbers of a row."""

    def numbers(self, x: GraphValue, places: GraphValue | None = None, room: int = 0) -> GraphValue:
        """The numbers of the elements of rows, or of those at some places, by default for a power of two of them."""
        rows, size = self.rows, room or self.rows.size
        own = "i" if size == rows.extent else place_within("i", rows.extent)
        inside = self.key(rows.at("A", own if places is None else place_within(rows.at("P", own), rows.extent)))
        text = inside if size == rows.extent else f"{inside} if i < {rows.extent} else {self.behind('i')}"
        return rows.site.single([f"{rows.at('Y', 'i')} = {text}"], rows.type(self.dtype, size), A=x, P=places)

    def places(self, numbers: GraphValue, count: int) -> GraphValue:
        """The places, i64, of the first of some numbers."""
        stages = self.place_stages(self.rows.at("K", "s"), self.rows.at("Y", "s"), count)
        return self.rows.site.single(stages, self.rows.type(DType.I64, count), K=numbers)


@dataclass(frozen=True)
class _IntegerKeys(_Keys):
    """Integers as an i64 each, above a place; `digit` is the text of the part of one that they are ordered by."""

    digit: str = "{0}"

    @property
    def dtype(self) -> DType:
        return DType.I64

    @property
    def last(self) -> str:
        return str(1 << (_SMALL_BITS + _PLACE_BITS))

    def behind(self, place: str) -> str:
        return f"{self.last} + {place}"

    def key(self, element: str) -> str:
        own = self.digit.format(f"~{element}" if self.order.largest else element)
        return f"i64({own}) * {1 << _PLACE_BITS} + i"

    def place_stages(self, key: str, made: str, count: int) -> list[str]:
        return [f"{made} = {key} & {(1 << _PLACE_BITS) - 1}"]


@dataclass(frozen=True)
class _FloatKeys(_Keys):
    """Floats of at most 32 bits as an f64 each, with bits to spare for a place."""

    @property
    def dtype(self) -> DType:
        return DType.F64

    @property
    def last(self) -> str:
        return real(_BEHIND)

    def behind(self, place: str) -> str:
        return f"{self.last} * (1.0 + f64({place}) * {real(_STEP)})"

    def key(self, element: str) -> str:
        number = f"f64({cast(element, self.order.dtype, DType.F32)})"
        own, nan = (f"(-{number})", -_NAN) if self.order.largest else (number, _NAN)
        limited = f"min(max({own}, {real(-_INFINITY)}), {real(_INFINITY)})"
        base = f"({real(nan)} if {number} != {number} else {real(_ZERO)} if {number} == 0.0 else {limited})"
        is_below = f"({number} != {number} or {number} > 0.0)" if self.order.largest else f"{number} < 0.0"
        return f"{base} * (1.0 + f64({self.rows.size} - i if {is_below} else i) * {real(_STEP)})"

    def place_stages(self, key: str, made: str, count: int) -> list[str]:
        near, steps, size = self.rows.at("W", "s"), self.rows.at("G", "s"), f"abs({key})"
        far = f"({real(_INFINITY)} if {size} < {real(2 * _INFINITY)} else {real(_NAN)})"
        base = f"({real(_ZERO)} if {near} == 0.0 else {near} if {near} < inf else {far})"
        return [
            declare_buffer("W", self.rows.type(DType.F64, count)),
            declare_buffer("G", self.rows.type(DType.I64, count)),
            f"{near} = f64(f32({size}))",
            f"{steps} = i64(rint(({size} / {base} - 1.0) * {real(1 / _STEP)}))",
            f"{made} = {steps} if {key} > 0.0 else {self.rows.size} - {steps}",
        ]


@dataclass(frozen=True)
class _Rows:
    """Rows of so many elements, with dimensions before and after them."""

    site: NodeSite
    before: tuple[int, ...]
    after: tuple[int, ...]
    extent: int

    @property
    def size(self) -> int:
        """The elements of a row, with others behind its end: a power of two."""
        return _padded(self.extent)

    def shape(self, *extents: int) -> tuple[int, ...]:
        """The shape of all rows with such dimensions in place of each."""
        return (*self.before, *extents, *self.after)

    def type(self, dtype: DType, *extents: int) -> ValueType:
        """A type with such dimensions in place of each row."""
        return ValueType(dtype, self.shape(*extents))

    def at(self, name: str, *inside: str) -> str:
        """An element of an array, with these subscripts among those of the other dimensions."""
        over = indices(len(self.before) + len(self.after))
        return at(name, [*over[: len(self.before)], *inside, *over[len(self.before) :]])

    def first_elements(self, x: GraphValue, places: GraphValue, k: int) -> tuple[GraphValue, GraphValue]:
        """The elements at the first of some places, and these."""
        place = self.at("P", "s")
        stages = [
            f"{self.at('Y', 's')} = {self.at('A', place_within(place, self.extent))}",
            f"{self.at('I', 's')} = {place}",
        ]
        outputs = {"Y": self.type(x.type.dtype, k), "I": self.type(DType.I64, k)}
        elements, numbers = self.site.program(stages, outputs, A=x, P=places)
        return elements, numbers

    def pick(self, places: GraphValue, turns: GraphValue) -> GraphValue:
        """The places that come in some turns."""
        text = self.at("P", place_within(self.at("T", "s"), self.extent))
        return self.site.single([f"{self.at('Y', 's')} = {text}"], turns.type, P=places, T=turns)

    def sort(self, keys: GraphValue) -> GraphValue:
        """All numbers of each row in order."""
        keys = self._rank_blocks(keys)
        for length in (1 << bits for bits in range(_BLOCK.bit_length(), self.size.bit_length())):
            keys = self._move_apart(keys, length)
            levels = length.bit_length() - 1
            if levels % 2:
                keys = self._exchange(keys)
            for _ in range(levels // 2):
                keys = self._exchange_twice(keys)
        return self.site.view(keys, self.shape(self.size))

    def _over(self, keys: GraphValue, stages: Sequence[str], *extents: int) -> GraphValue:
        return self.site.single(stages, self.type(keys.type.dtype, *extents), K=keys)

    def _rank_blocks(self, keys: GraphValue) -> GraphValue:
        keys = self.site.view(keys, self.shape(self.size // _BLOCK, _BLOCK))
        rank, own = self.at("R", "b", "u"), self.at("K", "b", "u")
        stages = [
            declare_buffer("R", replace(keys.type, dtype=DType.I32)),
            f"{rank} = sum[r < {_BLOCK}](i32(1) if {self.at('K', 'b', 'r')} < {own} else i32(0))",
            f"{self.at('Y', 'b', 's')} = max[u < {_BLOCK} if {rank} == i32(s)]({own})",
        ]
        return self.site.single(stages, keys.type, K=keys)

    def _move_apart(self, keys: GraphValue, length: int) -> GraphValue:
        """The first blocks of all pairs, and the second ones, turned around: elements that meet first, at one place."""
        pairs, half = self.size // length, length // 2
        keys = self.site.view(keys, self.shape(pairs, 2, half))
        own, turned = (self.at("K", "b", "h", place) for place in ("j", f"{half - 1} - j"))
        return self._over(keys, [f"{self.at('Y', 'h', 'j', 'b')} = {own} if h == 0 else {turned}"], 2, half, pairs)

    def _exchange(self, keys: GraphValue) -> GraphValue:
        """Each element of the first half with that of the second, the lesser one first, side by side."""
        keys = self.site.view(keys, self.shape(2, self.size // 2))
        both = f"{self.at('K', '0', 'i')}, {self.at('K', '1', 'i')}"
        low, high = self.at("C", "i"), self.at("D", "i")
        stages = [
            *(declare_buffer(name, self.type(keys.type.dtype, self.size // 2)) for name in "CD"),
            f"{low} = min({both})",
            f"{high} = max({both})",
            f"{self.at('Y', 'i', 'h')} = {low} if h == 0 else {high}",
        ]
        return self._over(keys, stages, self.size // 2, 2)

    def _exchange_twice(self, keys: GraphValue) -> GraphValue:
        """Two levels at once, of which the second exchanges what the first has put in the same half."""
        quarter = self.size // 4
        keys = self.site.view(keys, self.shape(4, quarter))
        given = [self.at("K", str(n), "i") for n in range(4)]
        names = [self.at(name, "i") for name in "CDEF"]
        low, high = (f"{names[0]}, {names[1]}", f"{names[2]}, {names[3]}")
        result = f"min({low}) if h == 0 else max({low}) if h == 1 else min({high}) if h == 2 else max({high})"
        stages = [
            *(declare_buffer(name, self.type(keys.type.dtype, quarter)) for name in "CDEF"),
            *(f"{names[n]} = {'min' if n < 2 else 'max'}({given[n % 2]}, {given[n % 2 + 2]})" for n in range(4)),
            f"{self.at('Y', 'i', 'h')} = {result}",
        ]
        return self._over(keys, stages, quarter, 4)
