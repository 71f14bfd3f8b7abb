"""The largest elements of each row.

There is no order among iterations to sort by: the rank of an element is how many come before it, which takes n * n
comparisons a row.
"""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices

Results = tuple[GraphValue, ...]

_LONGEST = 4096


@node_type("TopK")
def top_k(site: NodeSite) -> Results:
    x = site.operand(0)
    axis, k = site.axis(int(site.attribute("axis", -1)), x.rank), site.integers(1, "k")[0]
    extent = x.shape[axis]
    if not 0 <= k <= extent:
        raise Unsupported(f"it takes {k} of {extent} elements")
    if extent > _LONGEST:
        raise Unsupported(
            f"ranks of {extent} elements take {extent} * {extent} comparisons; up to {_LONGEST} are taken"
        )
    over = indices(x.rank)
    i = over[axis]

    def along(place: str) -> list[str]:
        return [place if dim == axis else name for dim, name in enumerate(over)]

    relation = ">" if site.flag("largest", 1) else "<"
    one, other = at("A", over), at("A", along("r0"))
    before = f"{other} {relation} {one} or ({other} == {one} and r0 < {i})"
    made = ValueType(x.type.dtype, (*x.shape[:axis], k, *x.shape[axis + 1 :]))
    place = at("I", over)
    stages = [
        declared("R", ValueType(DType.I64, x.shape)),
        f"{at('R', over)} = sum[r0 < {extent} if {before}](i64(1))",
        # Exactly one element has each rank.
        f"{place} = sum[r0 < {extent} if {at('R', along('r0'))} == {i}](r0)",
        f"{at('Y', over)} = {at('A', along(place))} if {place} >= 0 and {place} < {extent} else {at('A', along('0'))}",
    ]
    if x.type.dtype.is_float:
        stages[1] = f"{at('R', over)} = sum[r0 < {extent} if {_nan_aware(one, other, i, relation)}](i64(1))"
    return site.program(stages, {"Y": made, "I": ValueType(DType.I64, made.shape)}, A=x)


def _nan_aware(one: str, other: str, i: str, relation: str) -> str:
    """Which elements come before one: NaN counts as the largest, so that each element has a rank of its own."""
    nan, other_nan = f"{one} != {one}", f"{other} != {other}"
    tie = f"(({other} == {one} or ({nan} and {other_nan})) and r0 < {i})"
    if relation == ">":
        return f"{other} > {one} or ({other_nan} and not ({nan})) or {tie}"
    return f"{other} < {one} or ({nan} and not ({other_nan})) or {tie}"
