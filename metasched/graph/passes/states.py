"""States of a network are updated where they lie: of a cache only what is new is written."""

from __future__ import annotations

from dataclasses import replace

from metasched.graph.ir import Compute, Graph, InPlace, Node, Position, ShapeView, ValuePart, ValueType
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.text import at, indices
from metasched.graph.updates import StretchUpdate, stretch_update
from metasched.ir.pitch import packed_strides
from metasched.ir.program import Program
from metasched.lang import parse_program


@graph_pass(after=("parts",))
def states(graph: Graph, context: PassContext) -> Graph:
    """What a state of the network is next is written into it, where only a stretch of it changes."""
    made = dict(graph.outputs)
    for state, label in graph.states.items():
        found = _updated(graph, state, made[label])
        if isinstance(found, str):
            context.remark(f"`{state}` is copied: {found}")
        else:
            graph = found
    return graph


def _updated(graph: Graph, state: str, output: str) -> Graph | str:
    """The graph with a state updated in place, or why it is not."""
    number = next((n for n, node in enumerate(graph.nodes) if output in node.outputs), None)
    node = None if number is None else graph.nodes[number]
    update = stretch_update(node.program.func) if isinstance(node, Compute) else None
    if node is None or number is None or update is None or not isinstance(node, Compute):
        return f"`{output}` is not `{state}` with a stretch replaced at a position"
    values = dict(zip((b.name for b in node.program.inputs), node.inputs, strict=True))
    whole, position = values[update.whole], _source(graph, values[update.position])
    if whole != state or output in graph.parts:
        return f"`{output}` is not `{state}` with a stretch replaced"
    if position not in graph.inputs or position in graph.states:
        return f"the position, `{position}`, is no input of the network"
    readers = [other.name for other in graph.nodes if state in other.inputs and other is not node]
    if readers or any(name == state for _, name in graph.outputs):
        return f"what it was before is read by others, too: {', '.join(readers)}"
    return _in_place(graph, number, node, update, position)


def _source(graph: Graph, name: str) -> str:
    """The value that another is a view of."""
    views = {node.output: node.input for node in graph.nodes if isinstance(node, ShapeView)}
    while name in views:
        name = views[name]
    return name


def _in_place(graph: Graph, number: int, node: Compute, update: StretchUpdate, position: str) -> Graph:
    """The graph with an update that copies what is new into the state."""
    values = dict(zip((b.name for b in node.program.inputs), node.inputs, strict=True))
    state, given, output = values[update.whole], values[update.update], node.outputs[0]
    whole = graph.types[state]
    strides = packed_strides(whole.shape)
    stretch = ValueType(whole.dtype, (*whole.shape[: update.axis], update.count, *whole.shape[update.axis + 1 :]))
    new = f"{output}.new"
    while new in graph.types:
        new += "'"
    step = strides[update.axis]
    highest = whole.shape[update.axis] - update.first - update.count
    place = ValuePart(state, update.first * step, strides, Position(position, step, -update.first, highest))
    copy = Compute(node.name, node.op, _copying(graph.types[given], stretch, update), (given,), (new,))
    nodes: list[Node] = [*graph.nodes[:number], copy, InPlace(node.name, node.op, (state, new), output)]
    return replace(
        graph,
        nodes=(*nodes, *graph.nodes[number + 1 :]),
        types={**graph.types, new: stretch},
        parts={**graph.parts, output: ValuePart(state, 0, strides), new: place},
    )


def _copying(given: ValueType, made: ValueType, update: StretchUpdate) -> Program:
    over = indices(made.rank)
    source = at("A", ["0" if d is None else over[d] for d in update.dimensions])
    element = source if given.dtype is made.dtype else f"{made.dtype}({source})"
    return parse_program(f"program update(A: {given}) -> Y: {made}:\n    {at('Y', over)} = {element}\n")
