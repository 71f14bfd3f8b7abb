"""What is computed twice from the same values is computed once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from metasched.graph.ir import Compute, Graph, InPlace, Node
from metasched.graph.passes.dead_code import without_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass


@graph_pass(after=("constant_folding",))
def common_subexpressions(graph: Graph, context: PassContext) -> Graph:
    """What is computed twice from the same values is computed once."""
    same: dict[str, str] = {}
    seen: dict[Hashable, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = reading(node, same)
        key = _key(graph, node)
        known = seen.setdefault(key, node)
        if known is node:
            nodes.append(node)
        else:
            same |= dict(zip(node.outputs, known.outputs, strict=True))
            context.remark(f"`{node.name}` computes what `{known.name}` does")
    outputs = tuple((label, same.get(name, name)) for label, name in graph.outputs)
    return without_dead_code(replace(graph, nodes=tuple(nodes), outputs=outputs)) if same else graph


def reading(node: Node, same: dict[str, str]) -> Node:
    """A node that reads other values instead of some."""
    if not any(name in same for name in node.inputs):
        return node
    if isinstance(node, Compute | InPlace):
        return replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
    return replace(node, input=same.get(node.input, node.input))


def _key(graph: Graph, node: Node) -> Hashable:
    if isinstance(node, Compute):
        return (node.program.structural_hash(), node.inputs)
    # What is in place is a part of one value: another like it lies elsewhere.
    return (node.output,) if isinstance(node, InPlace) else (node.input, graph.types[node.output])
