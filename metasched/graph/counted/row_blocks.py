"""Rows of which only a call knows how many there are, in blocks: a loop runs as many blocks as the rows fill.

What would be computed for all the room is then computed for little more than what is there. Kernels are made for a
block, so there are no more of them, and a full room takes about as long as without blocks: each reads the weights
again, which is why blocks have to have work enough for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import ValueCount
from metasched.graph.counted.filled_rows import RowGroup, is_outermost, row_groups
from metasched.graph.fusion.stages import parse_once, program_of
from metasched.graph.ir import Compute, Graph, LoopNode, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.loop_node import LoopInput, LoopInputKind, LoopOutput, LoopOutputKind
from metasched.graph.text import at, fresh_name, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# Blocks of a room at most, and so many at least where fewer would fill it without a rest.
_MOST_BLOCKS, _FEWEST_BLOCKS = 8, 4
# Terms of sums of a block: in all, which take about as long as starting its kernels ten times over, and for each byte
# that blocks read again, such as of weights.
_LEAST_TERMS, _LEAST_TERMS_PER_BYTE = 1 << 22, 8
_NUMBER = ValueType(DType.I64, ())


def run_in_row_blocks(graph: Graph, counts: Mapping[str, ValueCount]) -> Graph:
    """A graph in which nodes that go by rows run in blocks of them, where that is worth a loop.

    `counts`: of values of the graph, how many rows there are. What no output needs is left out.
    """
    live = remove_dead_code(graph)
    known = {name: count for name, count in counts.items() if name in live.types}
    if not known:
        return live
    # Numbers that nothing reads so far have to be there.
    numbers = dict.fromkeys(count.number.name for count in known.values())
    made = remove_dead_code(replace(graph, outputs=(*graph.outputs, *((name, name) for name in numbers))))
    while (blocks := _find_blocks(made, known)) is not None:
        made = remove_dead_code(_Contraction(made, blocks).graph())
        # What joins blocks goes by rows as well, and is no work for blocks again.
        done = blocks.group.axes
        known = {name: count for name, count in known.items() if name in made.types and name not in done}
    return remove_dead_code(replace(made, outputs=graph.outputs))


@dataclass(frozen=True)
class _Blocks:
    """A group in so many blocks of so many rows."""

    group: RowGroup
    blocks: int
    rows: int

    @property
    def is_exact(self) -> bool:
        return self.blocks * self.rows == self.group.room


def _find_blocks(graph: Graph, counts: Mapping[str, ValueCount]) -> _Blocks | None:
    groups = row_groups(graph, counts, 2 * _LEAST_TERMS)
    return next((found for group in groups if (found := _blocks(graph, group)) is not None), None)


def _blocks(graph: Graph, group: RowGroup) -> _Blocks | None:
    """The most blocks that a group is worth; None where it is worth none."""
    sizes = [
        _Blocks(group, -(-group.room // rows), rows)
        for n in range(_MOST_BLOCKS, 1, -1)
        for rows in [-(-group.room // n)]
    ]
    fitting = [size for size in sizes if _is_worth(graph, size)]
    exact = [size for size in fitting if size.is_exact and size.blocks >= _FEWEST_BLOCKS]
    return next(iter([*exact, *fitting]), None)


def _is_worth(graph: Graph, blocks: _Blocks) -> bool:
    """Whether a block has work enough for starting its kernels, and for what each reads again."""
    group, rows = blocks.group, blocks.rows
    again: dict[str, int] = {}
    for number, own in group.programs.items():
        for place, name in enumerate(graph.nodes[number].inputs):
            if name not in group.axes and _blocked_axis(graph, group, number, place) is None:
                type_ = graph.types[name]
                whole = min(type_.nbytes, own.terms * type_.dtype.bytes)
                once = min(type_.nbytes, own.terms * rows // group.room * type_.dtype.bytes)
                again[name] = max(once - whole * rows // group.room, again.get(name, 0))
    return group.work * rows // group.room >= max(_LEAST_TERMS, _LEAST_TERMS_PER_BYTE * sum(again.values()))


def _blocked_axis(graph: Graph, group: RowGroup, number: int, place: int) -> int | None:
    node = graph.nodes[number]
    name = node.inputs[place]
    if number in group.programs:
        own = group.programs[number]
        axis = own.rows.get(own.stages.inputs[place])
        blocked = axis is not None and is_outermost(graph.types[name].shape, axis) and name not in graph.constants
        return axis if blocked else None
    shape = graph.types[name].shape  # of what is viewed: members are views of rows one behind another only
    return next(axis for axis, extent in enumerate(shape) if extent == group.room and is_outermost(shape, axis))


class _Contraction:
    """A graph with a loop in place of a group."""

    def __init__(self, graph: Graph, blocks: _Blocks) -> None:
        self._graph = graph
        self._blocks = blocks
        self._group = blocks.group
        self._types = dict(graph.types)
        self._around: list[Node] = []  # nodes that the loop needs before it
        self._elements: dict[str, tuple[str, str]] = {}  # of what is read by rows, all blocks of it, and one
        self._whole: dict[str, None] = {}
        self._names: dict[str, str] = {}  # of what members make, for a block
        self._origin = graph.nodes[self._group.members[-1]]
        self._turn = self._add_value("block", _NUMBER)

    def graph(self) -> Graph:
        graph, members = self._graph, {*self._group.members}
        body = [self._block_node(number) for number in self._group.members]
        limit = self._limit()
        others = (node.inputs for n, node in enumerate(graph.nodes) if n not in members)
        read = {*(name for names in others for name in names), *(name for _, name in graph.outputs)}
        made = [name for name in self._names if name in read]
        loop, after = self._loop(body, made, limit)
        first, last = self._split_nodes(members)
        nodes = (*first, *self._around, loop, *after, *last)
        return replace(graph, nodes=nodes, types=self._types)

    def _split_nodes(self, members: set[int]) -> tuple[list[Node], list[Node]]:
        """The other nodes, without and with a need for what members compute."""
        first, last, after = list[Node](), list[Node](), set[str]()
        for number, node in enumerate(self._graph.nodes):
            if number in members:
                after.update(node.outputs)
            elif after.isdisjoint(node.inputs):
                first.append(node)
            else:
                after.update(node.outputs)
                last.append(node)
        return first, last

    # --- the body

    def _block_node(self, number: int) -> Node:
        """A member for one block."""
        node, group, rows = self._graph.nodes[number], self._group, self._blocks.rows
        given = [self._read_in_block(number, place) for place in range(len(node.inputs))]
        made = [self._add_value(name, self._resize_type(name, group.axes[name], rows)) for name in node.outputs]
        self._names |= dict(zip(node.outputs, made, strict=True))
        if isinstance(node, ShapeView):
            return replace(node, input=given[0], output=made[0])
        assert isinstance(node, Compute), node
        own = group.programs[number]
        pairs = zip(own.stages.inputs, given, strict=True)
        whole = frozenset(buffer for buffer, name in pairs if name in self._whole or name in self._graph.constants)
        form = own.block_stages(whole, rows)
        if len(form.inputs) > len(given):
            given.append(self._turn)
        program = program_of(form, node.program.name)
        order = dict(zip(form.inputs, given, strict=True))
        inputs = tuple(order[buffer.name] for buffer in program.inputs)
        return replace(node, program=program, inputs=inputs, outputs=tuple(made))

    def _read_in_block(self, number: int, place: int) -> str:
        """The name of the value that a member reads in a block."""
        name = self._graph.nodes[number].inputs[place]
        if name in self._names:
            return self._names[name]
        along = _blocked_axis(self._graph, self._group, number, place)
        if along is not None:
            return self._add_block(name, along)
        if name not in self._graph.constants:
            self._whole[name] = None
        return name

    def _add_block(self, name: str, axis: int) -> str:
        """A block of a value that other nodes make."""
        if name not in self._elements:
            blocks, given = self._blocks, name
            if not blocks.is_exact:
                given = self._copy_rows(
                    name, self._add_value(name, self._resize_type(name, axis, blocks.blocks * blocks.rows))
                )
            one = self._resize_type(name, axis, blocks.rows)
            all_ = self._add_value(name, replace(one, shape=(blocks.blocks, *one.shape)))
            self._around.append(ShapeView(self._origin.name, self._origin.op, given, all_))
            self._elements[name] = all_, self._add_value(name, one)
        return self._elements[name][1]

    # --- around it

    def _limit(self) -> str:
        """How many blocks the rows fill."""
        number, rows = self._group.number, self._blocks.rows
        type_, limit = self._types[number], self._add_value("blocks", _NUMBER)
        element = at("S", ["0"] * type_.rank)
        text = f"program blocks(S: {type_}) -> Y: i64[]:\n    Y[] = (i64({element}) + {rows - 1}) // {rows}\n"
        self._around.append(Compute(self._origin.name, self._origin.op, parse_once(text), (number,), (limit,)))
        return limit

    def _copy_rows(self, name: str, made: str) -> str:
        """The rows of a value as another that has room for more or fewer; returns its name."""
        given, wanted = self._types[name], self._types[made]
        over = indices(wanted.rank)
        pairs = zip(over, given.shape, wanted.shape, strict=True)
        read = [i if n >= m else f"min({i}, {n - 1})" for i, n, m in pairs]
        text = f"program rows(A: {given}) -> Y: {wanted}:\n    {at('Y', over)} = {at('A', read)}\n"
        self._around.append(Compute(self._origin.name, self._origin.op, parse_once(text), (name,), (made,)))
        return made

    def _loop(self, nodes: Sequence[Node], made: Sequence[str], limit: str) -> tuple[LoopNode, list[Node]]:
        """The loop, and what makes of its blocks what other nodes read."""
        graph, origin, kinds = self._graph, self._origin, LoopInputKind
        one = {name: self._names[name] for name in made}
        takes = [(limit, LoopInput(kinds.LIMIT))]
        takes += [(all_, LoopInput(kinds.ELEMENTS, block)) for all_, block in self._elements.values()]
        takes += [(name, LoopInput(kinds.WHOLE, name)) for name in self._whole]
        inputs = (self._turn, *(own.body for _, own in takes if own.body))
        constants = {name: graph.constants[name] for node in nodes for name in node.inputs if name in graph.constants}
        inside = {*inputs, *constants, *(name for node in nodes for name in node.outputs)}
        types = {name: self._types[name] for name in inside}
        outputs = tuple((name, block) for name, block in one.items())
        body = Graph(origin.name, types, inputs, outputs, constants, tuple(nodes))
        all_blocks = {
            name: self._add_value(name, replace(types[block], shape=(self._blocks.blocks, *types[block].shape)))
            for name, block in one.items()
        }
        loop = LoopNode(
            name=origin.name,
            op=origin.op,
            body=body,
            inputs=tuple(name for name, _ in takes),
            outputs=tuple(all_blocks.values()),
            takes=tuple(own for _, own in takes),
            gives=tuple(LoopOutput(LoopOutputKind.ELEMENTS, name) for name in one),
            most=self._blocks.blocks,
            counter=self._turn,
        )
        return loop, list(self._join_blocks(all_blocks))

    def _join_blocks(self, all_blocks: Mapping[str, str]) -> Iterator[Node]:
        """The nodes that join the blocks of values."""
        before, self._around = self._around, []
        for name, given in all_blocks.items():
            axis, rows = self._group.axes[name], self._blocks.blocks * self._blocks.rows
            joined = name if self._blocks.is_exact else self._add_value(name, self._resize_type(name, axis, rows))
            self._around.append(ShapeView(self._origin.name, self._origin.op, given, joined))
            if joined != name:
                self._copy_rows(joined, name)
        made, self._around = self._around, before
        yield from made

    # --- values

    def _resize_type(self, name: str, axis: int, extent: int) -> ValueType:
        type_ = self._graph.types[name]
        return replace(type_, shape=(*type_.shape[:axis], extent, *type_.shape[axis + 1 :]))

    def _add_value(self, like: str, type_: ValueType) -> str:
        name = fresh_name(like, self._types)
        self._types[name] = type_
        return name
