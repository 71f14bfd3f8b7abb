"""Products of rows in groups, each with a matrix of its own, as the experts of language models are multiplied."""

from __future__ import annotations

import numpy as np

from metasched.doors.ordered import search
from metasched.doors.pytorch.registry import aten, lowers
from metasched.doors.pytorch.site import AtenSite
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import cast
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

_MOST_ROWS = 32


@dataclass(frozen=True)
class _RowGroups:
    """Rows in groups, one behind the other, and the same in blocks of as many rows, of which each is of one group.

    Attributes:
        ends: where each group ends among the rows.
        starts: where it starts.
        begins: its first block.
        last: the block behind its last one.
        size: the rows of a block, the last ones of a group perhaps of none.
        blocks: how many blocks there may be.

    """

    ends: GraphValue
    starts: GraphValue
    begins: GraphValue
    last: GraphValue
    size: int
    blocks: int


@aten("_grouped_mm")
def grouped_mm(
    site: AtenSite,
    x: GraphValue,
    weight: GraphValue,
    offs: GraphValue | None = None,
    bias: GraphValue | None = None,
    out_dtype: DType | None = None,
) -> GraphValue:
    if bias is not None or (offs is None and (x.rank, weight.rank) != (3, 3)):
        raise Unsupported("products of groups with a bias, or without the ends of groups, have no form here")
    return site.call("MatMul", x, weight) if offs is None else grouped_rows(site, x, weight, offs)


@lowers("transformers.grouped_mm_fallback")
def grouped_rows(site: AtenSite, x: GraphValue, weight: GraphValue, offs: GraphValue) -> GraphValue:
    """Rows up to each place in `offs` times the matrix of their group; behind the last one they are zero.

    In blocks a matrix is read once for several rows. With few rows for each group a block is a row.
    """
    if (x.rank, weight.rank) != (2, 3):
        raise Unsupported(f"groups are rows here, and these are {x.type} and {weight.type}")
    if 0 in (*x.shape, *weight.shape):
        raise Unsupported("products of no elements have no form here")
    groups = _find_groups(site, offs, x.shape[0])
    made = _multiply_blocks(site, groups, x, weight)
    return site.call("Gather", made, _places_of_rows(site, groups, x.shape[0]), axis=0)


def _find_groups(site: AtenSite, offs: GraphValue, rows: int) -> _RowGroups:
    nodes, count = site.nodes, offs.shape[0]
    size = 1 << (min(max(rows // (2 * count), 1), _MOST_ROWS).bit_length() - 1)
    ends = nodes.cast(offs, DType.I64)
    type_ = ValueType(DType.I64, (count,))
    starts = nodes.site("GroupStarts").single([f"Y[g] = I[g - 1] if g >= 1 else {DType.I64}(0)"], type_, I=ends)
    used = _whole(site, f"(max({{0}} - {{1}}, 0) + {size - 1}) // {size}", ends, starts)
    last = site.call("CumSum", used, site.integers([0]))
    begins = _whole(site, "{0} - {1}", last, used)
    return _RowGroups(ends, starts, begins, last, size, (rows + count * (size - 1)) // size)


def _multiply_blocks(site: AtenSite, groups: _RowGroups, x: GraphValue, weight: GraphValue) -> GraphValue:
    """The products of all blocks, row by row; those of blocks that there are not are numbers that nobody reads."""
    nodes, (count, terms, columns) = site.nodes, weight.shape
    places = nodes.constant("blocks", np.arange(groups.blocks))
    group = _whole(site, f"min({{0}}, {count - 1})", search(nodes, groups.last, places, right=True))
    start, begin = (site.call("Gather", of, group, axis=0) for of in (groups.starts, groups.begins))
    first = _whole(site, f"{{0}} + ({{1}} - {{2}}) * {groups.size}", start, places, begin)
    within = nodes.constant("within", np.arange(groups.size))
    rows = _whole(site, "{0} + {1}", nodes.view(first, (groups.blocks, 1)), within)
    packed = site.call("Gather", x, rows, axis=0)
    wide = site.result.compute
    product = f"{cast('A[b, r, k]', x.type.dtype, wide)} * {cast('B[I[b], k, c]', weight.type.dtype, wide)}"
    type_ = ValueType(wide, (groups.blocks, groups.size, columns))
    stage = f"Y[b, r, c] = sum[k < {terms}]({product})"
    made = nodes.site("GroupedMatMul").single([stage], type_, A=packed, B=weight, I=group)
    return nodes.view(nodes.cast(made, site.result), (groups.blocks * groups.size, columns))


def _places_of_rows(site: AtenSite, groups: _RowGroups, rows: int) -> GraphValue:
    """Where each row is among those of all blocks; behind them for a row that is in no group."""
    nodes, count = site.nodes, groups.ends.shape[0]
    row = nodes.constant("rows", np.arange(rows))
    found = search(nodes, groups.ends, row, right=True)
    group = _whole(site, f"min({{0}}, {count - 1})", found)
    start, begin = (site.call("Gather", of, group, axis=0) for of in (groups.starts, groups.begins))
    place = f"{{0}} * {groups.size} + {{1}} - {{2}} if {{3}} < {count} else {groups.blocks * groups.size}"
    return _whole(site, place, begin, row, start, found)


def _whole(site: AtenSite, text: str, *operands: GraphValue) -> GraphValue:
    """An expression of whole numbers."""
    return site.expression(text, *operands, computed=DType.I64, result=DType.I64)
