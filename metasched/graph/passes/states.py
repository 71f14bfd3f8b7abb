"""States of a network are updated where they lie: of a cache only what is new is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.fusion.stages import program_of
from metasched.graph.fusion.updates import StretchUpdate, position_apart, stretch_update
from metasched.graph.ir import Compute, Graph, InPlace, Node, ShapeView
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.placement import Position, ValuePart
from metasched.graph.text import fresh_name
from metasched.graph.value_type import type_of
from metasched.ir.pitch import packed_strides


@graph_pass(after=("parts",))
def states(graph: Graph, context: PassContext) -> Graph:
    """What a state of the network is next is written into it, where only a stretch of it changes."""
    made = dict(graph.outputs)
    for state, label in graph.states.items():
        found = _update_in_place(graph, state, made[label], context)
        apart = _position_apart(graph, made[label]) if isinstance(found, str) and context.in_loop else None
        if apart is not None:
            with_position = _update_in_place(apart, state, made[label], context)
            found = found if isinstance(with_position, str) else with_position
        if isinstance(found, str):
            context.remark(f"`{state}` is copied: {found}")
        else:
            graph = found
    return graph


def _position_apart(graph: Graph, output: str) -> Graph | None:
    """The graph in which a node of its own computes the position of an update; None where nothing computes one."""
    made = _source(_viewed(graph), output)
    computed = _find_maker(graph, made)
    found = None if computed is None else position_apart(computed[1].program)
    if computed is None or found is None:
        return None
    number, node = computed
    position = fresh_name(f"{made}.position", graph.types)
    values = node.input_values()
    values |= dict.fromkeys(found.position.outputs, position)
    first, rest = (
        Compute(
            node.name,
            node.op,
            program_of(stages, node.program.name),
            tuple(values[name] for name in stages.inputs),
            outputs,
        )
        for stages, outputs in ((found.position, (position,)), (found.rest, node.outputs))
    )
    types = {**graph.types, position: found.position.types[found.position.outputs[0]]}
    return replace(graph, types=types, nodes=(*graph.nodes[:number], first, rest, *graph.nodes[number + 1 :]))


def _update_in_place(graph: Graph, state: str, output: str, context: PassContext) -> Graph | str:
    """The graph with a state updated in place, or why it is not."""
    viewed = _viewed(graph)
    made = _source(viewed, output)
    computed = _find_maker(graph, made)
    update = None if computed is None else stretch_update(computed[1].program)
    if computed is None or update is None:
        return f"`{output}` is not `{state}` with a stretch replaced at a position"
    number, node = computed
    values = node.input_values()
    whole, position = values[update.whole], _source(viewed, values[update.position])
    if _source(viewed, whole) != state or made in graph.parts:
        return f"`{output}` is not `{state}` with a stretch replaced"
    if not context.in_loop and (position not in graph.inputs or position in graph.states):
        return f"the position, `{position}`, is no input of the network"
    if context.in_loop and graph.types[position].dtype not in (DType.I32, DType.I64):
        return f"the position, `{position}`, is {graph.types[position].dtype}"
    if context.in_loop and update.count > 1:
        return f"{update.count} places are written at once, of which some may not be there in a later step"
    views = {state, *(name for name in viewed if _source(viewed, name) == state)}
    readers = [other.name for other in _others(graph, node) if views.intersection(other.inputs)]
    if readers or any(name in views for _, name in graph.outputs):
        return f"what it was before is read by others, too: {', '.join(readers)}"
    return _place_update(graph, number, node, update, position)


def _find_maker(graph: Graph, value: str) -> tuple[int, Compute] | None:
    """The node whose program computes a value, and its number; None where there is none."""
    found = ((n, node) for n, node in enumerate(graph.nodes) if isinstance(node, Compute) and value in node.outputs)
    return next(found, None)


def _viewed(graph: Graph) -> dict[str, str]:
    """What each view of a graph is of."""
    return {node.output: node.input for node in graph.nodes if isinstance(node, ShapeView)}


def _others(graph: Graph, node: Compute) -> Iterator[Node]:
    """What reads elements, besides a node."""
    return (other for other in graph.nodes if other is not node and not isinstance(other, ShapeView))


def _source(viewed: Mapping[str, str], name: str) -> str:
    """The value that another is a view of, however many views are between."""
    while name in viewed:
        name = viewed[name]
    return name


def _place_update(graph: Graph, number: int, node: Compute, update: StretchUpdate, position: str) -> Graph:
    """The graph with an update that computes what is new where it lies in the state."""
    values = node.input_values()
    output = node.outputs[0]
    state, whole = _source(_viewed(graph), values[update.whole]), graph.types[values[update.whole]]
    strides = packed_strides(whole.shape)
    new = fresh_name(f"{output}.new", graph.types)
    step = strides[update.axis]
    highest = whole.shape[update.axis] - update.first - update.count
    place = ValuePart(state, update.first * step, strides, Position(position, step, -update.first, highest))
    program = program_of(update.stretch, node.program.name)
    given = tuple(values[name] for name in update.stretch.inputs)
    computed = Compute(node.name, node.op, program, given, (new,))
    nodes: list[Node] = [*graph.nodes[:number], computed, InPlace(node.name, node.op, (state, new), output)]
    return replace(
        graph,
        nodes=(*nodes, *graph.nodes[number + 1 :]),
        types={**graph.types, new: type_of(program.outputs[0])},
        parts={**graph.parts, output: ValuePart(state, 0, strides), new: place},
    )
