"""Dimensions that a program always uses together become one, and views say so.

One of an input along which two indices count places is two before: those may be used together elsewhere.
"""

from __future__ import annotations

from metasched.graph.fusion.stages import stages_of
from metasched.graph.ir import Compute, Graph
from metasched.graph.layouts.joining import join_dimensions
from metasched.graph.layouts.splitting import split_inputs
from metasched.graph.layouts.viewed_nodes import ViewedNodes
from metasched.graph.passes.declaration import PassContext, graph_pass


@graph_pass(after=("wide_factors", "strips"))
def dimensions(graph: Graph, _: PassContext) -> Graph:
    """Dimensions that a program always uses together become one."""
    made = ViewedNodes(graph)
    for node in graph.nodes:
        form = stages_of(node.program) if isinstance(node, Compute) else None
        flat = None if form is None else join_dimensions(split_inputs(form))
        if not isinstance(node, Compute) or flat is None or flat == form:
            made.nodes.append(node)
            continue
        given = zip(flat.inputs, node.inputs, strict=True)
        made.add(node, flat, [made.view(node, name, flat.types[buffer]) for buffer, name in given])
    return made.result()
