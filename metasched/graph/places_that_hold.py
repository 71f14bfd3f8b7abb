"""The places where a condition holds, in order, and how many there are.

Nothing can be put behind what was put before, as there is no order among iterations. So running sums say how many
places there are up to each, and the place with a number is searched for among them, by halves. Steps of the search are
programs of their own, and all after the first are one task.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.ir import ValueType
from metasched.graph.node_types.scans import Scan, scanned
from metasched.graph.repeated_elements import tally_of
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class PlacesThatHold:
    """Where a condition holds.

    Attributes:
        places: i64, as many as the condition has elements: places in ascending order, and behind them the number of
            elements.
        number: how many places there are, one i64.

    """

    places: GraphValue
    number: GraphValue


def that_are_there(site: NodeSite, condition: GraphValue) -> GraphValue:
    """A condition that does not hold for elements that are not there, where a call decides how many there are."""
    if condition.count is None:
        return condition
    over, number = indices(condition.rank), condition.count.number
    stage = f"{at('Y', over)} = {at('A', over)} and {over[condition.count.axis]} < S[]"
    return site.single([stage], condition.type, A=condition, S=site.view(number, ()))


def places_that_hold(site: NodeSite, condition: GraphValue) -> PlacesThatHold:
    """The places of a row of booleans, which has elements, where it is true."""
    (extent,) = condition.shape
    row = ValueType(DType.I32, condition.shape)
    ones = site.single(["Y[i] = i32(1) if A[i] else i32(0)"], row, A=condition)
    sums = scanned(site, ones, Scan("sum", 0))
    number = site.single([f"Y[] = i64(A[{extent - 1}])"], ValueType(DType.I64, ()), A=sums)
    number = replace(number, tally=tally_of(site.builder, condition))
    return PlacesThatHold(site.cast(_searched(site, sums), DType.I64), number)


def _searched(site: NodeSite, sums: GraphValue) -> GraphValue:
    """For each number, how many of some ascending sums are no larger: first `step` are tried, then half of it."""
    (extent,) = sums.shape
    step = 1 << (extent.bit_length() - 1)
    outputs = {"Y": sums.type, "V": ValueType(DType.I64, (1,))}

    def stages(taken: str, more: str, after: str) -> list[str]:
        no_larger = f"{more} <= {extent} and i64(A[min(max({more} - 1, 0), {extent - 1})]) <= p"
        return [f"Y[p] = i32({more} if {no_larger} else {taken})", f"V[z] = {after}"]

    found, tried = site.program(stages("0", str(step), f"i64({step // 2})"), outputs, A=sums)
    halved = stages("i64(N[p])", "i64(N[p]) + W[0]", "W[z] // 2")
    for _ in range(step.bit_length() - 1):
        found, tried = site.program(halved, outputs, A=sums, N=found, W=tried)
    return found
