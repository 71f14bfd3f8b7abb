"""The first elements of long rows, in order: looked for among those that are above a number.

Of a number between the least and the largest of a row, a count says whether too few elements are above it. So halves of
what is between them are left, until there are just a few elements more than are taken: in most rows after some ten
counts. These are ranked. Where many elements are equal, or numbers far apart, no number divides a row so in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from metasched.dtypes import DType, float_format
from metasched.graph.builder import GraphValue
from metasched.graph.counted.places_that_hold import places_in_rows
from metasched.graph.loops.building import LoopFrame, StepResults, add_loop
from metasched.graph.node_helpers.merged_blocks import SortOrder
from metasched.graph.node_helpers.selected_elements import OF_A_KERNEL, rank_cost, select_among
from metasched.graph.site import NodeSite
from metasched.graph.text import declare_buffer, limits, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# Counts, and what they and the places of elements above a number take for each element, in comparisons of ranks.
_MOST_STEPS, _OF_AN_ELEMENT = 64, 16
_KERNELS = 6
# Of the elements that are taken, what part more may be ranked, and how many at least.
_PART_MORE, _LEAST_MORE = 8, 16


def selection_cost(extent: int, k: int, rows: int) -> int:
    """What it takes to find the first `k` elements of so many rows, in comparisons of ranks."""
    return _KERNELS * OF_A_KERNEL + rows * (_OF_AN_ELEMENT * extent + rank_cost(_room(k), k))


@dataclass(frozen=True)
class DividedRows:
    """Rows, each by a number that no fewer elements reach than are taken.

    Attributes:
        rows: the elements, rows in one dimension.
        k: how many are taken.
        order: what is first.
        keys: what elements are compared by.
        low: the number of each row.
        is_divided: whether in every row just a few elements more reach it than are taken.

    """

    rows: GraphValue
    k: int
    order: SortOrder
    keys: GraphValue
    low: GraphValue
    is_divided: GraphValue

    def select_above(self, site: NodeSite) -> tuple[GraphValue, GraphValue]:
        """The first elements of each row, and their places, i64, where rows are divided."""
        holds = site.single(
            ["Y[b, r] = A[b, r] >= L[b]"], ValueType(DType.BOOL, self.rows.shape), A=self.keys, L=self.low
        )
        places = places_in_rows(site, holds, _room(self.k)).places
        return select_among(site, self.rows, 1, self.k, places, self.order)


def divide_rows(site: NodeSite, x: GraphValue, k: int, order: SortOrder) -> DividedRows:
    """Divide the rows along the last dimension by a number that few more than `k` elements reach."""
    rows = site.view(x, (prod(x.shape[:-1]), x.shape[-1]))
    keys = _keys(site, rows, order)
    low, taken = _lowest_taken(site, keys, k)
    is_divided = site.single(
        [
            *(declare_buffer(name, ValueType(DType.I32, (1,))) for name in "ML"),
            f"M[z] = max[b < {rows.shape[0]}](A[b])",
            f"L[z] = min[b < {rows.shape[0]}](A[b])",
            f"Y[] = M[0] <= {_room(k)} and L[0] >= {k}",
        ],
        ValueType(DType.BOOL, ()),
        A=taken,
    )
    return DividedRows(rows, k, order, keys, low, is_divided)


def _room(k: int) -> int:
    return k + max(k // _PART_MORE, _LEAST_MORE)


def _keys(site: NodeSite, rows: GraphValue, order: SortOrder) -> GraphValue:
    """What elements are compared by: the first in order have the largest, NaN as the largest numbers have."""
    wide, largest = rows.type.dtype.compute, order is SortOrder.LARGEST_FIRST
    if not wide.is_float:
        return site.single([f"Y[b, r] = {'A[b, r]' if largest else '~A[b, r]'}"], rows.type, A=rows)
    number = f"{wide}(A[b, r])" if largest else f"-{wide}(A[b, r])"
    of_nan = f"{wide}(inf)" if largest else f"{wide}({limits(wide)[0]})"
    return site.single([f"Y[b, r] = {of_nan} if A[b, r] != A[b, r] else {number}"], ValueType(wide, rows.shape), A=rows)


def _lowest_taken(site: NodeSite, keys: GraphValue, k: int) -> tuple[GraphValue, GraphValue]:
    """For each row the largest number found that no fewer than `k` keys reach, and how many do, i32."""
    rows, extent = keys.shape
    wide = keys.type.dtype
    each, counts = ValueType(wide, (rows,)), ValueType(DType.I32, (rows,))
    low, high = site.program(
        [
            *(declare_buffer(name, each) for name in "SG"),
            f"S[b] = min[r < {extent}](A[b, r])",
            f"G[b] = max[r < {extent}](A[b, r])",
            *_finite_limits(wide),
        ],
        {"L": each, "H": each},
        A=keys,
    )
    taken = site.single([f"Y[b] = sum[r < {extent}](i32(1) if A[b, r] >= L[b] else i32(0))"], counts, A=keys, L=low)

    def step(_: str, __: GraphValue, states: Sequence[GraphValue], ___: Sequence[GraphValue]) -> StepResults:
        changed = site.program(
            [
                declare_buffer("M", each),
                declare_buffer("C", counts),
                f"M[b] = {_between(wide)}",
                f"C[b] = sum[r < {extent}](i32(1) if A[b, r] >= M[b] else i32(0))",
                f"X[b] = M[b] if C[b] >= {k} else L[b]",
                f"Y[b] = H[b] if C[b] >= {k} else M[b]",
                f"Z[b] = C[b] if C[b] >= {k} else T[b]",
            ],
            {"X": each, "Y": each, "Z": counts},
            A=keys,
            **dict(zip("LHT", states, strict=True)),
        )
        return StepResults(changed, [], _goes_on(site, changed, _room(k)))

    begun = [low, high, taken]
    frame = LoopFrame(begun, most=_MOST_STEPS, condition=_goes_on(site, begun, _room(k)))
    low, _, taken = add_loop(site, frame, step).states
    return low, taken


def _finite_limits(dtype: DType) -> list[str]:
    """Stages that find the limits `L` and `H` of a row from its least element and its largest one, `S` and `G`."""
    if not dtype.is_float:
        return ["L[b] = S[b]", "H[b] = G[b]"]
    largest = real(float_format(dtype).largest)
    return [f"L[b] = max(S[b], -{largest})", f"H[b] = min(G[b], {largest})"]


def _between(dtype: DType) -> str:
    """The number in the middle between the limits of a row, the lower one of two; no sum of both overflows."""
    return "L[b] * 0.5 + H[b] * 0.5" if dtype.is_float else "(L[b] & H[b]) + ((L[b] ^ H[b]) >> 1)"


def _goes_on(site: NodeSite, states: Sequence[GraphValue], most: int) -> GraphValue:
    """Whether more elements than that reach the lower limit of any row that has a number between its limits."""
    low, _, counts = states
    middle = _between(low.type.dtype)
    return site.single(
        [
            declare_buffer("M", ValueType(DType.I32, (1,))),
            f"M[z] = max[b < {counts.shape[0]}](T[b] if {middle} > L[b] and {middle} < H[b] else 0)",
            f"Y[] = M[0] > {most}",
        ],
        ValueType(DType.BOOL, ()),
        **dict(zip("LHT", states, strict=True)),
    )
