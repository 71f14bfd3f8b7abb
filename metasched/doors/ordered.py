"""Elements in order, and places among elements that are in order."""

from __future__ import annotations

from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.merged_blocks import SortOrder
from metasched.graph.text import at, declare_buffer, indices
from metasched.graph.value_type import ValueType


def sort_along(
    nodes: NodeCalls,
    x: GraphValue,
    axis: int,
    count: int | None = None,
    order: SortOrder = SortOrder.SMALLEST_FIRST,
) -> tuple[GraphValue, GraphValue]:
    """Elements along an axis in order, and where they were: all, or the first so many; those that are equal stay in
    their order, and NaN is the largest.
    """
    extent = x.shape[axis] if count is None else count
    own = nodes.cast(x, DType.U8) if x.type.dtype.is_bool else x
    k = nodes.integers("k", [extent])
    largest = int(order is SortOrder.LARGEST_FIRST)
    made, places = nodes.call_outputs("TopK", own, k, outputs=2, axis=axis, largest=largest)
    assert made is not None
    assert places is not None
    return nodes.cast(made, x.type.dtype), places


def search(nodes: NodeCalls, ordered: GraphValue, values: GraphValue, *, right: bool) -> GraphValue:
    """Where values go in rows that are in order, by bisection.

    Args:
        nodes: what makes nodes of the graph.
        ordered: ascending along the last dimension: one row, or one for each of the first dimensions of `values`.
        values: of the same type.
        right: whether behind equal elements, and not before them.

    """
    extent, over = ordered.shape[-1], indices(values.rank)
    row = over[: ordered.rank - 1]
    value = at("B", over)
    stages = [declare_buffer("P0", ValueType(DType.I64, values.shape)), f"{at('P0', over)} = i64(0)"]
    step, n = 1 << (extent.bit_length() - 1) if extent else 0, 0
    while step:
        place = at(f"P{n}", over)
        element, last = at("A", (*row, f"{place} + {step - 1}")), f"{place} + {step - 1}"
        met = f"{element} <= {value}" if right else f"{element} < {value}"
        if values.type.dtype.is_float:
            met += f" or {value} != {value}" + ("" if right else f" and {element} == {element}")
        inside = f"{last} >= 0 and {last} < {extent}"
        n += 1
        stages += [
            declare_buffer(f"P{n}", ValueType(DType.I64, values.shape)),
            f"{at(f'P{n}', over)} = ({place} + {step} if {met} else {place}) if {inside} else {place}",
        ]
        step //= 2
    stages.append(f"{at('Y', over)} = {at(f'P{n}', over)}")
    return nodes.site("Search").single(stages, ValueType(DType.I64, values.shape), A=ordered, B=values)


def sum_by_place(nodes: NodeCalls, places: GraphValue, weights: GraphValue, size: int) -> GraphValue:
    """Sums of weights by their places: `size` of them. A place that is none of these counts nowhere."""
    dtype = weights.type.dtype
    count = places.type.size
    stage = f"Y[j] = sum[r0 < {count} if i64(I[r0]) == j](W[{'r0' if weights.type.size > 1 else '0'}])"
    flat = nodes.view(places, (count,))
    return nodes.site("Count").single(
        [stage], ValueType(dtype, (size,)), I=flat, W=nodes.view(weights, (weights.type.size,))
    )
