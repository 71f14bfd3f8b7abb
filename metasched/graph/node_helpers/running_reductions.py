"""Running sums, products and extrema of rows.

In a program no iteration goes on from another one: each element is a reduction of those before it, which takes
n * n / 2 steps a row. Where there are columns beside them, a schedule has rows of these go on from one another, and
elements of a row of whole numbers. Other long rows are taken in blocks: elements go on from the blocks before theirs,
of which there is a scan in turn. Blocks of floats are short, as each element of one adds up for itself: that takes some
n * 8 steps, and adds in another order than one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# Rows up to here are not taken in blocks, and the elements of a block; of one whose elements go on from one another.
_AT_ONCE, _BLOCK, _LONG_BLOCK = 16, 8, 4096
# The fewest elements beside those of a row for rows of them to go on from one another, and the most terms as written.
_COLUMNS, _TERMS = 8, 1 << 33
# Elements of a row up to which running sums of exponentials are taken.
_EXPONENTIALS = 1024
# How two results of each reduction are joined.
COMBINATIONS: Mapping[str, str] = {
    "sum": "{0} + {1}",
    "prod": "{0} * {1}",
    "max": "max({0}, {1})",
    "min": "min({0}, {1})",
}


@dataclass(frozen=True)
class Scan:
    """What each element is: a reduction of the elements of its row up to it.

    Attributes:
        reducer: "sum", "prod", "max" or "min".
        axis: what rows run along.
        exclusive: whether without the element itself.
        reverse: whether from it to the end.

    """

    reducer: str
    axis: int
    exclusive: bool = False
    reverse: bool = False

    @property
    def relation(self) -> str:
        """The comparison of an element's place with that of a result, which holds where it is part of the result."""
        return (">" if self.reverse else "<") + ("" if self.exclusive else "=")


def scan_axis(site: NodeSite, x: GraphValue, scan: Scan) -> GraphValue:
    """A running reduction along an axis."""
    if x.shape[scan.axis] > _AT_ONCE and not _goes_on(x, scan):
        return _scan_in_blocks(site, x, scan)
    over, dtype = indices(x.rank), x.type.dtype
    wide = dtype.compute
    element = at("A", ["r0" if dim == scan.axis else name for dim, name in enumerate(over)])
    met = f"r0 {scan.relation} {over[scan.axis]}"
    terms = f"{scan.reducer}[r0 < {x.shape[scan.axis]} if {met}]"
    if wide is dtype:
        return site.single([f"{at('Y', over)} = {terms}({element})"], x.type, A=x)
    stages = [
        declare_buffer("T", ValueType(wide, x.shape)),
        f"{at('T', over)} = {terms}({wide}({element}))",
        f"{at('Y', over)} = {dtype}({at('T', over)})",
    ]
    return site.single(stages, x.type, A=x)


def _goes_on(x: GraphValue, scan: Scan) -> bool:
    """Whether elements go on from one another, as the rule `scans` has them: whole numbers, and rows of columns.

    Results of a kernel are compared with those of the program as written, so that it is to have no more terms than take
    a few seconds.
    """
    extent, size = x.shape[scan.axis], prod(x.shape)
    has_columns = x.shape[-1] >= _COLUMNS and scan.axis < x.rank - 1
    return not scan.reverse and (has_columns or x.type.dtype.is_integer) and extent * size <= _TERMS


def _scan_in_blocks(site: NodeSite, x: GraphValue, scan: Scan) -> GraphValue:
    axis, extent, dtype = scan.axis, x.shape[scan.axis], x.type.dtype
    wide, over = dtype.compute, indices(x.rank)
    size = _LONG_BLOCK if dtype.is_integer and not scan.reverse and extent > _LONG_BLOCK else _BLOCK
    blocks = -(-extent // size)

    def along(*names: str) -> list[str]:
        return [*over[:axis], *names, *over[axis + 1 :]]

    def shape(*extents: int) -> tuple[int, ...]:
        return (*x.shape[:axis], *extents, *x.shape[axis + 1 :])

    element = f"{wide}({at('A', along(f'b * {size} + r0'))})"
    inside = f"b * {size} + r0 < {extent}" if extent % size else ""
    some = " and ".join(part for part in (f"r0 {scan.relation} j", inside) if part)
    within = f"{scan.reducer}[r0 < {size} if {some}]({element})"
    whole = f"{scan.reducer}[r0 < {size}{f' if {inside}' if inside else ''}]({element})"
    inner = site.single([f"{at('Y', along('b', 'j'))} = {within}"], ValueType(wide, shape(blocks, size)), A=x)
    totals = site.single([f"{at('Y', along('b'))} = {whole}"], ValueType(wide, shape(blocks)), A=x)
    before = scan_axis(site, totals, Scan(scan.reducer, axis, exclusive=True, reverse=scan.reverse))
    i = over[axis]
    first, second = at("A", along(f"{i} // {size}")), at("B", along(f"{i} // {size}", f"{i} % {size}"))
    text = COMBINATIONS[scan.reducer].format(first, second)
    text = text if wide is dtype else f"{dtype}({text})"
    return site.single([f"{at('Y', over)} = {text}"], ValueType(dtype, x.shape), A=before, B=inner)


def position_of_scan(site: NodeSite, x: GraphValue, extremes: GraphValue, axis: int) -> GraphValue:
    """Where each running extremum is: the last of those that are equal to it, as PyTorch says."""
    over = indices(x.rank)
    element = at("A", ["r0" if dim == axis else name for dim, name in enumerate(over)])
    own = at("B", over)
    met = f"r0 <= {over[axis]} and ({element} == {own}" + (
        f" or {element} != {element})" if x.type.dtype.is_float else ")"
    )
    stage = f"{at('Y', over)} = max[r0 < {x.shape[axis]} if {met}](r0)"
    return site.single([stage], ValueType(DType.I64, x.shape), A=x, B=extremes)


def log_sum_exp_scan(site: NodeSite, x: GraphValue, axis: int) -> GraphValue:
    """Logarithms of running sums of exponentials: the largest so far is taken out, so that nothing overflows."""
    extent, over, dtype = x.shape[axis], indices(x.rank), x.type.dtype
    if extent > _EXPONENTIALS:
        raise Unsupported(f"it takes {extent} * {extent} exponentials; up to {_EXPONENTIALS} elements a row are taken")
    wide = dtype.compute
    element = f"{wide}({at('A', ['r0' if dim == axis else name for dim, name in enumerate(over)])})"
    largest, met = at("M", over), f"r0 < {extent} if r0 <= {over[axis]}"
    finite = f"({largest} if abs({largest}) < inf else 0.0)"
    stages = [
        declare_buffer("M", ValueType(wide, x.shape)),
        f"{largest} = max[{met}]({element})",
        declare_buffer("S", ValueType(wide, x.shape)),
        f"{at('S', over)} = sum[{met}](exp({element} - {finite}))",
        f"{at('Y', over)} = {dtype}(log({at('S', over)}) + {finite})",
    ]
    return site.single(stages, x.type, A=x)
