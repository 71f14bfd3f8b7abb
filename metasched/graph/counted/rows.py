"""Nodes that read values with a size that only a call knows: they compute all that there is room for.

Where each element along a dimension of a result is computed from the elements at the same place of such operands, the
result has as many as these have, and what lies beyond is of no meaning there, too. That is read off the programs of a
node, whatever its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.counted.views import count_in_view, viewed_axis
from metasched.graph.errors import Unsupported
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, Node, ShapeView
from metasched.graph.registry import Import
from metasched.graph.site import NodeSite
from metasched.graph.text import number
from metasched.graph.value_type import ValueType
from metasched.ir.source import Name, Read, Stage

# Whether two values are computed alike.
_Alike: TypeAlias = Callable[[GraphValue, GraphValue], bool]


class _OtherRows(Exception):
    """An element that is not computed from those at its own place of what has a size that only a call knows."""


def run_on_rows(run: Import, site: NodeSite) -> tuple[GraphValue | None, ...]:
    """The outputs of a node, with the sizes that they have of its operands.

    Raises Unsupported where an operand has a size that only a call knows, and not each row of a result is computed from
    one row of it.
    """
    if all(value is None or value.count is None for value in site.inputs):
        return run(site)
    before = len(site.builder)
    made = run(site)
    rows = _Rows(site)
    for node in site.builder.nodes_from(before):
        rows.follow(node)
    return tuple(None if value is None else rows.result(value) for value in made)


def run_along(run: Import, site: NodeSite, axis: int, absent: str) -> tuple[GraphValue | None, ...]:
    """The outputs of a node that goes along an axis of its first input, and whose results are of its shape.

    Where only a call knows how many elements there are along it, those that are not there are what `absent` says, which
    has to change nothing for the others, and the results have as many. Raises Unsupported as `run_on_rows` does.
    """
    x = site.operand(0)
    if x.count is None or x.count.axis != axis:
        return run_on_rows(run, site)
    made = run(replace(site, inputs=(fill_absent(site, x, absent), *site.inputs[1:])))
    return tuple(None if value is None else replace(value, count=x.count) for value in made)


def run_summed(run: Import, site: NodeSite, axes: Sequence[int | None]) -> tuple[GraphValue | None, ...]:
    """The outputs of a node that sums products of its inputs along an axis of each; None where it sums along none.

    Where only a call knows how many elements there are along it, those that are not there are zero. Raises Unsupported
    as `run_on_rows` does.
    """
    inputs = list(site.inputs)
    for place, (x, axis) in enumerate(zip(inputs, axes, strict=False)):
        if x is not None and x.count is not None and x.count.axis == axis:
            inputs[place] = fill_absent(site, x, str(number(0, x.type.dtype)))
    return run_on_rows(run, replace(site, inputs=tuple(inputs)))


class _Rows:
    """Values with sizes that only a call knows, and those that are computed of them in another way than by rows."""

    def __init__(self, site: NodeSite) -> None:
        self._site = site
        self._operands = [value for value in site.inputs if value is not None and value.count is not None]
        self._counts = {value.name: value.count for value in self._operands if value.count is not None}
        # Values of as many elements as their type says: the other operands, and what is computed of these alone.
        self._known = {value.name for value in site.inputs if value is not None and value.count is None}
        self._others: dict[str, str] = {}

    def follow(self, node: Node) -> None:
        """Find what the outputs of a node have, whose inputs are known."""
        other = next((self._others[name] for name in node.inputs if name in self._others), None)
        given = {name: self._counts[name] for name in node.inputs if name in self._counts}
        if other is None and not given:
            if not self._known.isdisjoint(node.inputs):
                self._known.update(node.outputs)
            return
        try:
            if other is not None:
                raise _OtherRows(other)
            self._counts |= self._count_outputs(node, given)
        except _OtherRows as error:
            self._others |= dict.fromkeys(node.outputs, str(error))

    def _count_outputs(self, node: Node, given: Mapping[str, ValueCount]) -> dict[str, ValueCount]:
        if isinstance(node, ShapeView):
            count = given[node.input]
            given_type, made = (self._site.builder.type_of(name) for name in (node.input, node.output))
            seen = viewed_axis(given_type, made, count.axis)
            if seen is None:
                raise _OtherRows(f"{given_type} is read as {made}, which has no such dimension")
            return {node.output: count_in_view(self._site, count, seen)}
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if stages is None:
            raise _OtherRows("it is read as a whole")
        known = {buffer for buffer, name in zip(stages.inputs, node.inputs, strict=True) if name in self._known}
        return _counts_of_program(stages, node, given, known, self._site.builder.is_same_value)

    def result(self, value: GraphValue) -> GraphValue:
        """A result with its size. Raises Unsupported where it has none."""
        if value.count is not None:
            return value
        if value.name in self._counts:
            return replace(value, count=self._counts[value.name])
        first = self._operands[0]
        assert first.count is not None, first
        why = self._others.get(value.name, f"what {self._site.op} gives depends on how many there are")
        raise Unsupported(
            f"data decide how many elements its input {self._site.inputs.index(first)} has along its dimension "
            f"{first.count.axis}, and {why}: it can be an output of the network, or read by nodes that compute each "
            "element from those at the same place",
            tuple(sorted(frozenset[str]().union(*(operand.depends for operand in self._operands)))),
        )


def _counts_of_program(
    stages: Stages, node: Node, given: Mapping[str, ValueCount], known: Set[str], alike: _Alike
) -> dict[str, ValueCount]:
    """The sizes of the outputs of a program, by their names, for those of inputs; `known` are inputs of known sizes."""
    counts = {buffer: given[name] for buffer, name in zip(stages.inputs, node.inputs, strict=True) if name in given}
    for stage in stages.stages:
        count = _count_of_stage(stage, stages.types, counts, alike)
        if count is not None:
            _refuse_known_sizes(stage, stages.types, known, count.axis)
            counts |= dict.fromkeys(stage.targets, count)
        elif any(read.buffer in known for read in reads(stage.value)):
            known = known | frozenset(stage.targets)
    named = zip(stages.outputs, node.outputs, strict=True)
    return {name: counts[buffer] for buffer, name in named if buffer in counts}


def _count_of_stage(
    stage: Stage, types: Mapping[str, ValueType], counts: Mapping[str, ValueCount], alike: _Alike
) -> ValueCount | None:
    """The size of what a stage computes; None where it reads nothing that has one."""
    found = [
        _count_of_read(read, stage, types, counts[read.buffer]) for read in reads(stage.value) if read.buffer in counts
    ]
    if any(one.axis != found[0].axis or not alike(one.number, found[0].number) for one in found):
        raise _OtherRows("it is read together with another one, of another size, or in another order")
    return found[0] if found else None


def _refuse_known_sizes(stage: Stage, types: Mapping[str, ValueType], known: Set[str], axis: int) -> None:
    """Refuse several elements, a known number, beside as many as data decide: those may be one, which goes with each.

    Raises _OtherRows.
    """
    name, extent = stage.axes[axis].name, types[stage.buffer].shape[axis]
    for read in reads(stage.value) if extent > 1 else ():
        if read.buffer in known and any(isinstance(place, Name) and place.name == name for place in read.indices):
            raise _OtherRows(
                f"it is read together with another one, of {extent}, where there may be fewer, or just one"
            )


def _count_of_read(read: Read, stage: Stage, types: Mapping[str, ValueType], count: ValueCount) -> ValueCount:
    """The size that a read makes what reads it have."""
    place, extent = read.indices[count.axis], types[read.buffer].shape[count.axis]
    axes = [axis.name for axis in stage.axes]
    if not isinstance(place, Name) or place.name not in axes:
        raise _OtherRows("elements at other places are read")
    axis = axes.index(place.name)
    if types[stage.buffer].shape[axis] != extent:
        raise _OtherRows("they become part of another dimension")
    return replace(count, axis=axis)
