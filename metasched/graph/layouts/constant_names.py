"""Constants that took the place of others get their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from metasched.graph.ir import Graph, ShapeView


def restore_constant_names(graph: Graph, before: Mapping[str, str]) -> Graph:
    """The graph in which a constant is named after the one that it was made from, if that is not there any more and
    nothing else was made from it. `before` has, by the name of a new constant, what it was made from.
    """
    there = {new: old for new, old in before.items() if new in graph.constants}
    made = Counter(there.values())
    names = {new: old for new, old in there.items() if made[old] == 1 and old not in graph.types}
    if not names:
        return graph
    nodes = tuple(
        node
        if isinstance(node, ShapeView)
        else replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))
        for node in graph.nodes
    )
    return replace(
        graph,
        nodes=nodes,
        types={names.get(name, name): type_ for name, type_ in graph.types.items()},
        constants={names.get(name, name): array for name, array in graph.constants.items()},
    )
