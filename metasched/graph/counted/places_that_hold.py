"""The places where a condition holds, in order, and how many there are.

Nothing can be put behind what was put before, as there is no order among iterations. So running sums say how many
places there are before each, which is where it goes, and the rule `scatter` puts it there. Every place goes there, also
one where the condition does not hold: the last that goes to one spot is where it does. So there is nothing to decide
for each, which a CPU would guess wrong.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.node_helpers.repeated_elements import tally_of
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class PlacesThatHold:
    """Where a condition holds.

    Attributes:
        places: i64, as many as there is room for: places in ascending order, and behind them the number of elements.
        number: how many places there are, one i64.

    """

    places: GraphValue
    number: GraphValue


def mask_absent(site: NodeSite, condition: GraphValue) -> GraphValue:
    """A condition that does not hold for elements that are not there, where a call decides how many there are."""
    if condition.count is None:
        return condition
    over, number = indices(condition.rank), condition.count.number
    stage = f"{at('Y', over)} = {at('A', over)} and {over[condition.count.axis]} < S[]"
    return site.single([stage], condition.type, A=condition, S=site.view(number, ()))


def room_for(most: int) -> int:
    """The room for what data decide to be so many at most: two at least.

    A dimension of one is read at 0 wherever it lies, so nobody could say which one of a result data decide.
    """
    return max(most, 2)


def places_that_hold(site: NodeSite, condition: GraphValue, room: int | None = None) -> PlacesThatHold:
    """The places of a row of booleans, which has elements, where it is true. There is room for all, unless said."""
    (extent,) = condition.shape
    found = places_in_rows(site, condition, extent if room is None else room)
    number = replace(site.view(found.number, ()), tally=tally_of(site.builder, condition))
    return PlacesThatHold(found.places, number)


def places_in_rows(site: NodeSite, condition: GraphValue, most: int) -> PlacesThatHold:
    """The first places along the last dimension of booleans where they are true, at most so many in each row.

    `number` has one for each row, which counts all of them.
    """
    *around, extent = condition.shape
    over = indices(len(around))
    held, last = at("C", (*over, "i")), str(extent - 1)
    ones = site.single(
        [f"{at('Y', (*over, 'i'))} = i32(1) if {held} else i32(0)"],
        ValueType(DType.I32, condition.shape),
        C=condition,
    )
    before = scan_axis(site, ones, Scan("sum", len(around), exclusive=True))
    total = f"{at('A', (*over, last))} + (i32(1) if {at('C', (*over, last))} else i32(0))"
    number = site.single(
        [f"{at('Y', over)} = i64({total})"], ValueType(DType.I64, tuple(around)), A=before, C=condition
    )
    own, place = at("A", (*over, "r")), at("P", (*over, "p"))
    stages = [
        declare_buffer("P", ValueType(DType.I32, (*around, most))),
        f"{place} = max[r < {extent} if i64({own}) == p](i32(r))",
        f"{at('Y', (*over, 'p'))} = i64({place}) if p < {at('N', over)} else {extent}",
    ]
    places = site.single(stages, ValueType(DType.I64, (*around, most)), A=before, N=number)
    return PlacesThatHold(places, number)
