"""Branches that data choose: each is a loop of at most one step, so that what is not chosen is not computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.size_arithmetic import number_of, sizes_of
from metasched.graph.errors import Unsupported
from metasched.graph.loops.building import LoopFrame, StepResults, add_loop
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite, RunBody
from metasched.graph.text import at, indices, number
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]
_NUMBER = ValueType(DType.I64, ())
_BRANCHES = ("then_branch", "else_branch")


@node_type("If")
def branch(site: NodeSite) -> Results:
    """The branch that a condition asks for, which a call computes; both make values of the same types."""
    condition = site.operand(0)
    if condition.type.size != 1:
        raise Unsupported(f"its condition is {condition.type}, and not one element")
    return build_branch(site, condition, [site.graphs.branch(site.require_attribute(name)) for name in _BRANCHES])


def build_branch(site: NodeSite, condition: GraphValue, runs: Sequence[RunBody]) -> Results:
    """Run one of two graphs without inputs: the first where a condition of one element holds.

    Along one dimension they may differ in how many elements there are, which only a call knows then.
    Raises Unsupported where they do not make values of the same types otherwise.
    """
    with site.builder.body():  # to see of what types they are
        made = [run([], "types") for run in runs]
    frames = [_frame(one, other) for one, other in zip(*made, strict=True)]
    # The second loop takes its step where the first does not, so nobody sees what the first begins with.
    kinds = [frame.type for frame in frames] + [_NUMBER for frame in frames if frame.axis is not None]
    found: Results = tuple(site.constant(np.zeros(x.shape, x.dtype.numpy), x.dtype) for x in kinds)
    for wanted, run in zip((condition, site.elementwise("not {0}", condition)), runs, strict=True):
        found = _if(site, wanted, _fit_to_frames(site, run, frames), found)
    counts = iter(found[len(frames) :])
    return tuple(
        value if frame.axis is None else replace(value, count=ValueCount(next(counts), frame.axis))
        for value, frame in zip(found, frames, strict=False)
    )


@dataclass(frozen=True)
class _Frame:
    """What has room for a value of either branch; `axis` is the dimension along which they differ, if they do."""

    type: ValueType
    axis: int | None


def _frame(one: GraphValue, other: GraphValue) -> _Frame:
    counted = {value.count.axis for value in (one, other) if value.count is not None}
    if one.type == other.type and not counted:
        return _Frame(one.type, None)
    if one.type.dtype is other.type.dtype and one.rank == other.rank:
        counted |= {axis for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)) if a != b}
        if len(counted) == 1:
            shape = tuple(max(a, b) for a, b in zip(one.shape, other.shape, strict=True))
            return _Frame(ValueType(one.type.dtype, shape), counted.pop())
    raise Unsupported(f"data choose between {one.type} and {other.type}")


def _fit_to_frames(site: NodeSite, run: RunBody, frames: Sequence[_Frame]) -> RunBody:
    """A branch whose values have room for those of the other, and beside them how many elements there are."""

    def framed(given: Sequence[GraphValue], name: str) -> list[GraphValue]:
        values, numbers = list[GraphValue](), list[GraphValue]()
        for value, frame in zip(run(given, name), frames, strict=True):
            values.append(value if frame.axis is None else _extend_to_room(site, value, frame.type, frame.axis))
            if frame.axis is not None:
                numbers.append(number_of(site, sizes_of(value)[frame.axis]))
        return [*values, *numbers]

    return framed


def _extend_to_room(site: NodeSite, value: GraphValue, type_: ValueType, axis: int) -> GraphValue:
    """A value with room for more elements along an axis."""
    if value.type == type_:
        return replace(value, count=None)
    zero, extent, over = number(0, type_.dtype), value.shape[axis], indices(type_.rank)
    if not value.type.size:
        return site.constant(np.zeros(type_.shape, type_.dtype.numpy), type_.dtype)
    held = [f"min({name}, {extent - 1})" if dim == axis else name for dim, name in enumerate(over)]
    stage = f"{at('Y', over)} = {at('A', held)} if {over[axis]} < {extent} else {zero}"
    return site.single([stage], type_, A=value)


def _if(site: NodeSite, condition: GraphValue, run: RunBody, otherwise: Results) -> Results:
    """What a branch makes where a condition holds."""
    frame = LoopFrame(otherwise, most=1, condition=condition)
    return add_loop(site, frame, lambda name, *_: StepResults(run([], name), ())).states
