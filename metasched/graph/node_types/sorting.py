"""The largest elements of each row.

There is no order among iterations to sort by: the rank of an element is how many come before it, which takes n * n
comparisons a row. Few elements are picked one by one instead: each step looks for the first of those that come after
the one before. Where more of many elements are wanted, they are looked for in rounds: the first of each block go on to
the next, as in a tournament.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from metasched.dtypes import DType, integer_range
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.node_types.movement import stacked
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

# So many are ranked at most, and so many without a round before.
_LONGEST = 4096
_AT_ONCE = 1024
# The least elements of a block, which is whole vectors where it can be.
_BLOCK, _VECTORS = 256, 64
# So many elements are picked one by one at most, each by a kernel that takes as long as so many comparisons by itself.
_MOST_STEPS, _OF_A_KERNEL = 128, 1024


@dataclass(frozen=True)
class _Row:
    """Elements of which some go on, and where they were in the operand; None where they are the operand."""

    elements: GraphValue
    places: GraphValue | None
    axis: int

    @property
    def extent(self) -> int:
        return self.elements.shape[self.axis]

    def shape(self, *extents: int) -> tuple[int, ...]:
        """That of the elements, with other dimensions in place of the row's."""
        shape = self.elements.shape
        return (*shape[: self.axis], *extents, *shape[self.axis + 1 :])

    def along(self, *names: str) -> list[str]:
        """Subscripts, with these for the row."""
        over = indices(self.elements.rank)
        return [*over[: self.axis], *names, *over[self.axis + 1 :]]


@node_type("TopK")
def top_k(site: NodeSite) -> Results:
    x = site.operand(0)
    row = _Row(x, None, site.axis(int(site.attribute("axis", -1)), x.rank))
    k, largest = site.integers(1, "k")[0], site.flag("largest", 1)
    if not 0 <= k <= row.extent:
        raise Unsupported(f"it takes {k} of {row.extent} elements")
    if 0 < k <= _MOST_STEPS and _is_picked_faster(row, k):
        return _one_by_one(site, row, k, largest=largest)
    while row.extent > _AT_ONCE and 0 < 4 * k <= row.extent:
        row = _first_of_blocks(site, row, k, largest=largest)
    if row.extent > _LONGEST:
        raise Unsupported(
            f"ranks of {row.extent} elements take {row.extent} * {row.extent} comparisons; up to {_LONGEST} are taken, "
            "and of more no more than a quarter"
        )
    i, extent = indices(x.rank)[row.axis], row.extent
    met = _before(x.type.dtype, at("A", row.along(i)), at("A", row.along("r0")), f"r0 < {i}", largest=largest)
    stages = [
        declared("R", ValueType(DType.I64, row.elements.shape)),
        f"{at('R', row.along(i))} = sum[r0 < {extent} if {met}](i64(1))",
    ]
    # Exactly one element has each rank.
    place = f"sum[r0 < {extent} if {at('R', row.along('r0'))} == {i}](r0)"
    return _picked(site, row, stages, place, row.along(i), row.shape(k))


def _is_picked_faster(row: _Row, k: int) -> bool:
    """Whether `k` steps over all elements take fewer comparisons than ranks."""
    rows = prod(row.shape())
    return k * (rows * row.extent + _OF_A_KERNEL) < rows * row.extent**2


def _one_by_one(site: NodeSite, row: _Row, k: int, *, largest: bool) -> Results:
    """The first `k` elements, each of them the first of those that come after the one before.

    What an element is compared by is its value and, among equal ones, its turn: its place, or for half of the elements,
    by whether they are NaN, its place behind all of these. So NaN is the largest of all.
    """
    step: tuple[GraphValue, ...] = ()
    turns = []
    for _ in range(k):
        step = _next(site, row, step, largest=largest)
        turns.append(step[1])
    shape = row.shape(k)
    turn = at("T", row.along("s"))
    place = f"{turn} if {turn} < {row.extent} else {turn} - {row.extent}"
    return _picked(site, row, [], place, row.along("s"), shape, T=stacked(site, turns, row.axis))


def _next(site: NodeSite, row: _Row, before: Sequence[GraphValue], *, largest: bool) -> Results:
    """The value and the turn of the first element after another, whose own `before` has; of all where that is empty."""
    dtype, over = row.elements.type.dtype, row.along()
    value, turn = at("A", row.along("r0")), "r0"
    if dtype.is_float:
        nan = f"{value} != {value}"
        value, turn = f"(inf if {nan} else {value})", f"(r0 if {nan} else r0 + {row.extent})"
        turn = turn if largest else f"(r0 + {row.extent} if {nan} else r0)"
    relation, best, worst = ("<", "max", _ends(dtype)[0]) if largest else (">", "min", _ends(dtype)[1])
    is_best, element = f"{value} == {at('W', over)}", value
    if before:
        last, its_turn = at("V", over), at("P", over)
        after = f"({value} {relation} {last} or ({value} == {last} and {turn} > {its_turn}))"
        is_best, element = f"{is_best} and {after}", f"{value} if {after} else {worst}"
    stages = [
        f"{at('W', over)} = {best}[r0 < {row.extent}]({element})",
        f"{at('Q', over)} = min[r0 < {row.extent}]({turn} if {is_best} else {2 * row.extent})",
    ]
    outputs = {"W": ValueType(dtype, row.shape()), "Q": ValueType(DType.I64, row.shape())}
    return site.program(stages, outputs, A=row.elements, **dict(zip("VP", before, strict=False)))


def _ends(dtype: DType) -> tuple[str, str]:
    """The least and the largest number of a type, as a program says them."""
    if dtype.is_float:
        return "-inf", "inf"
    lowest, highest = integer_range(dtype)
    return str(lowest), str(highest)


def _first_of_blocks(site: NodeSite, row: _Row, k: int, *, largest: bool) -> _Row:
    """The first `k` of each block of a row, side by side; those of a block come before those of the next, and ties in
    their own order, so that an equal element of a lower place stays before one of a higher.
    """
    count, size = _blocks(row.extent, k)
    one, other = (at("A", row.along(f"j * {size} + {name}")) for name in ("u", "r0"))
    inside, itself = (f"j * {size} + {name} < {row.extent}" for name in ("r0", "u"))
    met = _before(row.elements.type.dtype, one, other, "r0 < u", largest=largest)
    rank = f"sum[r0 < {size} if {itself} and {inside}](i64(1) if {met} else i64(0))"
    stages = [
        declared("R", ValueType(DType.I64, row.shape(count, size))),
        f"{at('R', row.along('j', 'u'))} = {rank}",
    ]
    place = f"sum[r0 < {size} if {inside} and {at('R', row.along('j', 'r0'))} == s](j * {size} + r0)"
    made = _picked(site, row, stages, place, row.along("j", "s"), row.shape(count, k))
    elements, places = (site.view(value, row.shape(count * k)) for value in made)
    return _Row(elements, places, row.axis)


def _picked(
    site: NodeSite,
    row: _Row,
    stages: Sequence[str],
    place: str,
    over: Sequence[str],
    shape: tuple[int, ...],
    **inputs: GraphValue,
) -> Results:
    """The elements of a row at computed places, and where these are in the operand."""
    outputs = {"Y": ValueType(row.elements.type.dtype, shape), "I": ValueType(DType.I64, shape)}
    name = "I" if row.places is None else "P"
    own = at(name, over)

    def of(array: str) -> str:
        inside = f"{own} >= 0 and {own} < {row.extent}"
        return f"{at(array, row.along(own))} if {inside} else {at(array, row.along('0'))}"

    found = [*stages, *([] if row.places is None else [declared("P", outputs["I"])]), f"{own} = {place}"]
    found.append(f"{at('Y', over)} = {of('A')}")
    if row.places is not None:
        found.append(f"{at('I', over)} = {of('K')}")
    return site.program(found, outputs, A=row.elements, K=row.places, **inputs)


def _blocks(extent: int, k: int) -> tuple[int, int]:
    """How many blocks, and the elements of each but the last, which has `k` or more, too."""
    count = -(-extent // max(2 * k, _BLOCK))
    while True:
        even = -(-extent // count)
        for size in (-(-even // _VECTORS) * _VECTORS, even):
            if extent - (count - 1) * size >= k:
                return count, size
        count -= 1


def _before(dtype: DType, one: str, other: str, earlier: str, *, largest: bool) -> str:
    """Whether another element comes before one; of equal ones the `earlier`. NaN counts as the largest, so that each
    element has a rank of its own.
    """
    relation = ">" if largest else "<"
    if not dtype.is_float:
        return f"{other} {relation} {one} or ({other} == {one} and {earlier})"
    nan, other_nan = f"{one} != {one}", f"{other} != {other}"
    tie = f"(({other} == {one} or ({nan} and {other_nan})) and {earlier})"
    if largest:
        return f"{other} > {one} or ({other_nan} and not ({nan})) or {tie}"
    return f"{other} < {one} or ({nan} and not ({other_nan})) or {tie}"
