"""Passes in the bodies of loops, and what bodies take over from the graph around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from metasched.graph.ir import Array, Graph, LoopNode
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.loop_node import LoopInputKind
from metasched.graph.loops.building import drop_unread_inputs

ChangeGraph = Callable[[Graph], Graph]


def replace_bodies(graph: Graph, change: Callable[[LoopNode], Graph]) -> Graph:
    """The graph in which each loop has another body, of the same inputs and outputs."""
    if not any(graph.loops):
        return graph
    nodes = tuple(replace(node, body=change(node)) if isinstance(node, LoopNode) else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


def change_all_graphs(graph: Graph, change: ChangeGraph) -> Graph:
    """A graph changed, and so are the bodies of its loops, and of theirs."""
    return replace_bodies(change(graph), lambda loop: change_all_graphs(loop.body, change))


def replace_constants(graph: Graph, change: Callable[[Mapping[str, Array]], Mapping[str, Array]]) -> Graph:
    """A graph with other constants, in the bodies of loops, too."""
    return change_all_graphs(graph, lambda one: replace(one, constants=change(one.constants)))


def settle_loops(graph: Graph) -> Graph:
    """A graph whose loops read what their bodies need only, where constants that they read are the bodies' own."""
    if not any(graph.loops):
        return graph
    nodes = tuple(_settle_loop(node, graph) if isinstance(node, LoopNode) else node for node in graph.nodes)
    return graph if nodes == graph.nodes else remove_dead_code(replace(graph, nodes=nodes))


def _settle_loop(loop: LoopNode, graph: Graph) -> LoopNode:
    """A loop that has its constants: what is computed of them alone is known ahead, whatever the step."""
    known = {
        own.body: graph.constants[name]
        for name, own in loop.inputs_of_kind(LoopInputKind.WHOLE)
        if name in graph.constants
    }
    if known:
        pairs = [(name, own) for name, own in zip(loop.inputs, loop.takes, strict=True) if own.body not in known]
        body = replace(
            loop.body,
            inputs=tuple(name for name in loop.body.inputs if name not in known),
            constants={**loop.body.constants, **known},
        )
        inputs, takes = (tuple(each) for each in zip(*pairs, strict=True)) if pairs else ((), ())
        loop = replace(loop, body=body, inputs=inputs, takes=takes)
    body = settle_loops(loop.body)
    return drop_unread_inputs(loop if body is loop.body else replace(loop, body=body))
