"""What is picked where a condition holds: data decide how many elements results have, which have room for all."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.places_that_hold import mask_absent, places_that_hold, room_for
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices, number, place_within
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

# As many elements have places of 32 bits, whose quotients take a fraction of the time.
_SMALL = 1 << 31


@node_type("Compress", counts=True)
def compress(site: NodeSite) -> Results:
    """The elements, or those along an axis, where a condition holds."""
    if site.operand(1).constant is not None:
        return run_on_rows(_compress_known, site)
    x, condition = site.operand(0), site.operand(1)
    has_axis = site.attribute("axis") is not None
    axis = site.axis(int(site.attribute("axis")), x.rank) if has_axis else 0
    if x.count is not None and (condition.count is None or x.count.axis != axis or not (has_axis or x.rank == 1)):
        raise Unsupported("data decide how many elements its data has, and not how many its condition has")
    return (_compress_by_data(site, x if has_axis else site.view(x, (x.type.size,)), axis, condition),)


def _compress_known(site: NodeSite) -> Results:
    """The elements where a condition holds that is known at load."""
    x, places = site.operand(0), np.flatnonzero(site.require_known(1, "condition"))
    if site.attribute("axis") is None:
        x, axis = site.view(x, (x.type.size,)), 0
    else:
        axis = site.axis(int(site.attribute("axis")), x.rank)
    if places.size and places[-1] >= x.shape[axis]:
        raise Unsupported(f"its condition holds at {places[-1]}, and there are {x.shape[axis]} elements")
    shape = tuple(places.size if dim == axis else n for dim, n in enumerate(x.shape))
    over = indices(len(shape))
    if x.constant is not None:
        return (site.constant(x.constant.take(places, axis), x.type.dtype),)
    index = site.constant(places.astype(np.int64), DType.I64)
    read = (*over[:axis], at("I", [over[axis]]), *over[axis + 1 :])
    return (site.single([f"{at('Y', over)} = {at('A', read)}"], ValueType(x.type.dtype, shape), A=x, I=index),)


def _compress_by_data(site: NodeSite, x: GraphValue, axis: int, condition: GraphValue) -> GraphValue:
    """The elements where a condition holds that a call computes, and zeros behind them."""
    (room,) = condition.shape
    if room > x.shape[axis]:
        raise Unsupported(f"its condition has {room} elements, and there are {x.shape[axis]}")
    if not room or not x.type.size:
        raise Unsupported(f"{x.type} has no elements that {condition.type} could pick")
    found, over = places_that_hold(site, mask_absent(site, condition), room_for(room)), indices(x.rank)
    place = at("I", [over[axis]])
    picked = at("A", [place_within(place, room) if dim == axis else name for dim, name in enumerate(over)])
    type_ = ValueType(x.type.dtype, tuple(room_for(room) if dim == axis else n for dim, n in enumerate(x.shape)))
    stage = f"{at('Y', over)} = {picked} if {place} < {room} else {number(0, type_.dtype)}"
    made = site.single([stage], type_, A=x, I=found.places)
    return replace(made, count=ValueCount(found.number, axis))


@node_type("NonZero", counts=True)
def non_zero(site: NodeSite) -> Results:
    """The places of what is not zero: a row for each dimension, and a column for each place."""
    x = site.operand(0)
    if x.constant is not None:
        return (site.constant(np.array(np.nonzero(x.constant), np.int64), DType.I64),)
    if not x.rank or not x.type.size:
        raise Unsupported(f"{x.type} has no places: it is one number, or has no elements")
    holds = x if x.type.dtype.is_bool else site.elementwise(f"{{0}} != {number(0, x.type.dtype)}", x, dtype=DType.BOOL)
    holds = mask_absent(site, replace(holds, count=x.count))
    room = room_for(x.type.size)
    found = places_that_hold(site, site.view(holds, (x.type.size,)), room)
    made = site.single(
        [f"Y[d, p] = {_coordinate(x.shape)} if I[p] < {x.type.size} else 0"],
        ValueType(DType.I64, (x.rank, room)),
        I=found.places,
    )
    return (replace(made, count=ValueCount(found.number, 1)),)


def _coordinate(shape: tuple[int, ...]) -> str:
    """The text of the coordinate `d` of a place in a shape, computed in 32 bits where they are enough."""
    place = "i32(I[p])" if prod(shape) < _SMALL else "I[p]"
    texts = []
    for dim, n in enumerate(shape):
        stride = prod(shape[dim + 1 :])
        text = place if stride == 1 else f"{place} // {stride}"
        texts.append(text if dim == 0 else f"{text} % {n}")
    chosen = "".join(f"{text} if d == {dim} else " for dim, text in enumerate(texts[:-1]))
    return f"i64({chosen}{texts[-1]})"
