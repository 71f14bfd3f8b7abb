"""The places where a condition holds, in order, and how many there are.

Nothing can be put behind what was put before, as there is no order among iterations. So running sums say how many
places there are up to each, and the place with a number is searched for among them, by halves. Steps of the search are
programs of their own, and all after the first are one task.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_types.scans import Scan, scanned
from metasched.graph.repeated_elements import tally_of
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
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
    found = places_in_rows(site, condition, extent)
    number = replace(site.view(found.number, ()), tally=tally_of(site.builder, condition))
    return PlacesThatHold(found.places, number)


def places_in_rows(site: NodeSite, condition: GraphValue, most: int) -> PlacesThatHold:
    """The first places along the last dimension of booleans where they are true, at most so many in each row.

    `number` has one for each row, which counts all of them.
    """
    *around, extent = condition.shape
    over = indices(len(around))
    ones = site.single(
        [f"{at('Y', (*over, 'i'))} = i32(1) if {at('A', (*over, 'i'))} else i32(0)"],
        ValueType(DType.I32, condition.shape),
        A=condition,
    )
    sums = scanned(site, ones, Scan("sum", len(around)))
    last = at("A", (*over, str(extent - 1)))
    number = site.single([f"{at('Y', over)} = i64({last})"], ValueType(DType.I64, tuple(around)), A=sums)
    return PlacesThatHold(site.cast(_searched(site, sums, most), DType.I64), number)


def _searched(site: NodeSite, sums: GraphValue, most: int) -> GraphValue:
    """For each number below `most`, how many of a row of ascending sums are no larger: first `step` are tried, then
    half of it.
    """
    *around, extent = sums.shape
    over = indices(len(around))
    step = 1 << (extent.bit_length() - 1)
    outputs = {"Y": ValueType(DType.I32, (*around, most)), "V": ValueType(DType.I64, (1,))}

    def stages(taken: str, more: str, after: str) -> list[str]:
        there = at("A", (*over, f"min(max({more} - 1, 0), {extent - 1})"))
        no_larger = f"{more} <= {extent} and i64({there}) <= p"
        return [f"{at('Y', (*over, 'p'))} = i32({more} if {no_larger} else {taken})", f"V[z] = {after}"]

    found, tried = site.program(stages("0", str(step), f"i64({step // 2})"), outputs, A=sums)
    before = f"i64({at('N', (*over, 'p'))})"
    halved = stages(before, f"{before} + W[0]", "W[z] // 2")
    for _ in range(step.bit_length() - 1):
        found, tried = site.program(halved, outputs, A=sums, N=found, W=tried)
    return found
