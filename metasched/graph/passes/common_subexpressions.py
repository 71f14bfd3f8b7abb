"""What is computed twice from the same values is computed once.

Constants of the same elements are the same value: exporters write a layer's weights once for each place where the layer
is used. Such a constant stays what each node reads, unless the whole node is there twice, so that layers whose weights
happen to be equal, as zeros are, stay programs like those of other layers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView, replace_reads
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass

# Elements of a constant that are compared before all are.
_SAMPLED_ELEMENTS = 64


@graph_pass(after=("constant_folding", "loop_invariants"))
def common_subexpressions(graph: Graph, context: PassContext) -> Graph:
    """What is computed twice from the same values is computed once."""
    same: dict[str, str] = {}
    seen: dict[Hashable, Node] = {}
    equal = _equal_constants(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        node = replace_reads(node, same)
        key = _key(graph, node, equal)
        known = seen.setdefault(key, node)
        if known is node:
            nodes.append(node)
        else:
            same |= dict(zip(node.outputs, known.outputs, strict=True))
            context.remark(f"`{node.name}` computes what `{known.name}` does")
    outputs = tuple((label, same.get(name, name)) for label, name in graph.outputs)
    return remove_dead_code(replace(graph, nodes=tuple(nodes), outputs=outputs)) if same else graph


def _equal_constants(constants: Mapping[str, Array]) -> dict[str, str]:
    """The constants that have the elements of one before, with its name."""
    alike: dict[Hashable, list[str]] = {}
    out: dict[str, str] = {}
    for name, array in constants.items():
        some = array.reshape(-1)[:: array.size // _SAMPLED_ELEMENTS + 1].tobytes()
        others = alike.setdefault((array.dtype, array.shape, some), [])
        found = next((other for other in others if _have_same_bytes(constants[other], array)), None)
        if found is None:
            others.append(name)
        else:
            out[name] = found
    return out


def _have_same_bytes(one: Array, other: Array) -> bool:
    return one is other or np.array_equal(_bytes(one), _bytes(other))


def _bytes(array: Array) -> Array:
    """The elements as bytes: zeros of both signs are two numbers, and NaN is itself."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _key(graph: Graph, node: Node, equal: Mapping[str, str]) -> Hashable:
    if isinstance(node, Compute):
        return (node.program.structural_hash(), tuple(equal.get(name, name) for name in node.inputs))
    if isinstance(node, ShapeView):
        return (node.input, graph.types[node.output])
    # What is in place is a part of one value: another like it lies elsewhere. Bodies of loops are not compared.
    return node.outputs
