"""A graph without what no output depends on."""

from __future__ import annotations

from dataclasses import replace

from metasched.graph.ir import Graph, Node


def remove_dead_code(graph: Graph) -> Graph:
    """The graph without what no output needs. Its inputs stay, as they are what a call gives."""
    needed = {name for _, name in graph.outputs}
    nodes: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
            places = (graph.parts[name].position for name in node.outputs if name in graph.parts)
            needed.update(position.input for position in places if position is not None)
    constants = {name: array for name, array in graph.constants.items() if name in needed}
    kept = {*graph.inputs, *constants, *(name for node in nodes for name in node.outputs)}
    parts = {name: part for name, part in graph.parts.items() if name in kept}
    kept.update(part.of for part in parts.values())
    types = {name: type_ for name, type_ in graph.types.items() if name in kept}
    return replace(graph, nodes=tuple(reversed(nodes)), constants=constants, types=types, parts=parts)
