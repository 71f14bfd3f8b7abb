"""Nodes that go by rows of which only a call knows how many there are, in groups that may run for some rows only.

What lies beyond the rows that there are is of no meaning. So what nothing but such nodes reads, by rows, need have no
more of them either, whatever computes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from metasched.graph.builder import ValueCount
from metasched.graph.counted.row_programs import RowProgram, row_program
from metasched.graph.counted.views import viewed_axis
from metasched.graph.fusion.stages import stages_of
from metasched.graph.ir import Compute, Graph, ShapeView
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class RowGroup:
    """Nodes that go by the same rows: what leaves them never comes back to them.

    Attributes:
        room: how many rows there may be.
        number: the value that says how many there are.
        members: the numbers of the nodes in the graph, in order.
        programs: what those that are programs compute, by rows.
        axes: of each value that they compute, the dimension along which its rows lie.

    """

    room: int
    number: str
    members: tuple[int, ...]
    programs: Mapping[int, RowProgram]
    axes: Mapping[str, int]

    @property
    def work(self) -> int:
        """What it takes to compute all the room, in terms of sums."""
        return sum(own.work for own in self.programs.values())


def row_groups(graph: Graph, counts: Mapping[str, ValueCount], least: int) -> Iterator[RowGroup]:
    """The groups of a graph that take so many terms of sums at least.

    `counts`: of values with a size that only a call knows.
    """
    order = _Order(graph)
    kinds: dict[tuple[str, int], dict[str, int]] = {}
    for name, count in counts.items():
        room = graph.types[name].shape[count.axis]
        kinds.setdefault((count.number.name, room), {})[name] = count.axis
    for (number, room), counted in kinds.items():
        yield from _Finding(order, counted, number, room).groups(least)


class _Order:
    """The nodes of a graph as they need one another, by their numbers."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {name: number for number, node in enumerate(graph.nodes) for name in node.outputs}
        self.readers: dict[str, list[int]] = {}
        self.results = {name for _, name in graph.outputs}
        # What each needs, itself included, as the bits of a number.
        self._needs: list[int] = []
        for number, node in enumerate(graph.nodes):
            needs = 1 << number
            for name in dict.fromkeys(node.inputs):
                self.readers.setdefault(name, []).append(number)
                needs |= self._needs[self.makers[name]] if name in self.makers else 0
            self._needs.append(needs)

    def needs(self, name: str, number: int) -> bool:
        """Whether a value is computed of what a node computes."""
        return name in self.makers and bool(self._needs[self.makers[name]] >> number & 1)


class _Finding:
    def __init__(self, order: _Order, counted: Mapping[str, int], number: str, room: int) -> None:
        self._order = order
        self._graph = order.graph
        self._counted = counted
        self._number = number
        self._room = room
        self._axes: dict[str, int] = {}
        self._programs: dict[int, RowProgram] = {}
        # How members read values: along which dimension by rows, None for as a whole.
        self._uses: dict[str, set[int | None]] = {}
        self._members: set[int] = set()

    def groups(self, least: int) -> Iterator[RowGroup]:
        """The nodes that go by these rows, as far as they hang together and take so many terms."""
        makers = self._order.makers
        waiting = sorted({-makers[name] for name in self._counted if name in makers})
        seen = set(waiting)
        while waiting:  # the last node first, so that all of what may read its outputs was looked at
            number = -heappop(waiting)
            if self._joins(number):
                self._members.add(number)
                for name in self._graph.nodes[number].inputs:
                    if name in makers and -makers[name] not in seen:
                        seen.add(-makers[name])
                        heappush(waiting, -makers[name])
        if self._group(self._members).work < least:
            return
        found = (self._group(members) for members in self._connected_members() if self._is_whole(members))
        yield from (group for group in found if group.work >= least)

    def _group(self, members: Collection[int]) -> RowGroup:
        made = {name for number in members for name in self._graph.nodes[number].outputs}
        programs = {number: self._programs[number] for number in members if number in self._programs}
        axes = {name: axis for name, axis in self._axes.items() if name in made}
        return RowGroup(self._room, self._number, tuple(sorted(members)), programs, axes)

    def _joins(self, number: int) -> bool:
        """Make a node a member, if it can be one."""
        node = self._graph.nodes[number]
        axes = {name: axis for name in node.outputs if (axis := self._axis(name)) is not None}
        if len(axes) < len(node.outputs) or self._order.needs(self._number, number):
            return False
        uses = self._input_rows(number, axes)
        if uses is None:
            return False
        self._axes |= axes
        for name, along in zip(node.inputs, uses, strict=True):
            self._uses.setdefault(name, set()).add(along)
        return True

    def _input_rows(self, number: int, axes: Mapping[str, int]) -> Sequence[int | None] | None:
        """How a node reads its inputs whose outputs have rows along such dimensions; None where it can be no member."""
        node, types = self._graph.nodes[number], self._graph.types
        if isinstance(node, ShapeView):
            seen = viewed_axis(types[node.output], types[node.input], axes[node.output])
            is_alike = seen is not None and seen.times == 1 and is_outermost(types[node.input].shape, seen.axis)
            return [seen.axis] if seen is not None and is_alike else None
        form = stages_of(node.program) if isinstance(node, Compute) else None
        if form is None:
            return None
        found = row_program(form, dict(zip(form.outputs, axes.values(), strict=True)), self._room)
        if found is None:
            return None
        self._programs[number] = found
        return [found.rows.get(buffer) for buffer in form.inputs]

    def _axis(self, name: str) -> int | None:
        """The dimension along which the rows of a value lie; None where it must have more than those that are there,
        or has none.
        """
        uses, is_read = self._uses.get(name, set()), self._leaves(name, self._members)
        if name in self._counted:
            axis = self._counted[name]
            is_alike = uses <= {axis} and (not is_read or is_outermost(self._graph.types[name].shape, axis))
            return axis if is_alike else None
        if is_read or len(uses) != 1:
            return None
        (along,) = uses
        return along

    def _leaves(self, name: str, members: Collection[int]) -> bool:
        """Whether other nodes read a value, or callers."""
        readers = self._order.readers.get(name, ())
        return name in self._order.results or any(number not in members for number in readers)

    def _connected_members(self) -> Iterator[Sequence[int]]:
        """Members that are read by one another, and not by way of others."""
        nodes, members, makers = self._graph.nodes, self._members, self._order.makers
        level = self._levels()
        group = {number: number for number in members}
        for number in members:
            for name in nodes[number].inputs:
                other = makers.get(name)
                if other in members and level[other] == level[number]:
                    group[_root(group, other)] = _root(group, number)
        found: dict[int, list[int]] = {}
        for number in sorted(members):
            found.setdefault(_root(group, number), []).append(number)
        yield from found.values()

    def _levels(self) -> Mapping[int, int]:
        """How often what each node reads has left the members at most; as much as what reads it, where that can be."""
        nodes, members, makers = self._graph.nodes, self._members, self._order.makers
        level: dict[int, int] = {}
        for number, node in enumerate(nodes):
            needed = [makers[name] for name in node.inputs if name in makers]
            left = number not in members
            level[number] = max((level[other] + (left and other in members) for other in needed), default=0)
        for number in sorted(members, reverse=True):
            made = nodes[number].outputs
            if not any(self._leaves(name, members) for name in made):
                level[number] = min(level[other] for name in made for other in self._order.readers[name])
        return level

    def _is_whole(self, members: Sequence[int]) -> bool:
        """Whether what other nodes read of a group lies as it is put together of blocks."""
        made = (name for number in members for name in self._graph.nodes[number].outputs)
        left = (name for name in made if self._leaves(name, members))
        return all(is_outermost(self._graph.types[name].shape, self._axes[name]) for name in left)


def _root(group: dict[int, int], number: int) -> int:
    while group[number] != number:
        group[number] = group[group[number]]
        number = group[number]
    return number


def is_outermost(shape: Sequence[int], axis: int) -> bool:
    """Whether rows lie one behind another in memory."""
    return all(extent == 1 for extent in shape[:axis])
