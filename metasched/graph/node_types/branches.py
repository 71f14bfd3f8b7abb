"""Branches that data choose: each is a loop of at most one step, so that what is not chosen is not computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.size_arithmetic import number_of, sizes_of
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Node
from metasched.graph.loops.building import STEP, LoopFrame, StepResults, add_loop
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
    made = [_import_branch(site, run) for run in runs]
    frames = [_frame(one, other) for one, other in zip(*(branch.values for branch in made), strict=True)]
    # The second loop takes its step where the first does not, so nobody sees what the first begins with.
    kinds = [frame.type for frame in frames] + [_NUMBER for frame in frames if frame.axis is not None]
    found: Results = tuple(site.constant(np.zeros(x.shape, x.dtype.numpy), x.dtype) for x in kinds)
    for wanted, branch in zip((condition, site.elementwise("not {0}", condition)), made, strict=True):
        found = _if(site, wanted, branch, frames, found)
    counts = iter(found[len(frames) :])
    return tuple(
        value if frame.axis is None else replace(value, count=ValueCount(next(counts), frame.axis))
        for value, frame in zip(found, frames, strict=False)
    )


@dataclass(frozen=True)
class _Branch:
    """A branch that is imported: its nodes, and what it makes."""

    nodes: Sequence[Node]
    values: Sequence[GraphValue]


def _import_branch(site: NodeSite, run: RunBody) -> _Branch:
    """Import a branch, once: its types are known before the loop is, and one in another would be imported again for
    each that it is in.
    """
    with site.builder.body() as nodes:
        values = run([], STEP)
    return _Branch(nodes, values)


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


def _fit_to_frames(site: NodeSite, made: Sequence[GraphValue], frames: Sequence[_Frame]) -> list[GraphValue]:
    """What a branch makes with room for what the other does, and beside it how many elements there are."""
    values, numbers = list[GraphValue](), list[GraphValue]()
    for value, frame in zip(made, frames, strict=True):
        values.append(value if frame.axis is None else _extend_to_room(site, value, frame.type, frame.axis))
        if frame.axis is not None:
            numbers.append(number_of(site, sizes_of(value)[frame.axis]))
    return [*values, *numbers]


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


def _if(
    site: NodeSite, condition: GraphValue, branch: _Branch, frames: Sequence[_Frame], otherwise: Results
) -> Results:
    """What a branch makes where a condition holds."""

    def step(*_: object) -> StepResults:
        site.builder.adopt(branch.nodes)
        return StepResults(_fit_to_frames(site, branch.values, frames), ())

    return add_loop(site, LoopFrame(otherwise, most=1, condition=condition), step).states
