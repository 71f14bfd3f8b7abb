"""Nodes and constants that no output depends on are left out."""

from __future__ import annotations

from metasched.graph.ir import Graph
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass


@graph_pass()
def dead_code(graph: Graph, _: PassContext) -> Graph:
    """What no output depends on is left out."""
    return remove_dead_code(graph)
