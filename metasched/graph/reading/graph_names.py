"""The values that a graph of a model uses."""

from __future__ import annotations

from typing import Any


def names_read(graph: Any) -> frozenset[str]:
    """The values that nodes of a graph read, also in graphs that they have, and the graph's outputs."""
    found = {value.name for value in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for one in inner:
                found |= names_read(one)
    return frozenset(found)
