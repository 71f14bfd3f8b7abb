"""Elements of values that depend on constants alone, though the graph computes them in each call.

A graph keeps no constant that is much larger than what it is computed from (see `passes.constant_folding`), and has
still to know it where it decides what is computed: which elements an assignment to a part of a tensor goes to, say,
which exporters write as an index for each element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.graph.builder import GraphBuilder, GraphValue
from metasched.graph.fusion.merge import merge_nodes
from metasched.graph.fusion.stages import stages_of
from metasched.graph.fusion.views import PlaceByData
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView
from metasched.graph.passes.constant_folding import compute_outputs
from metasched.graph.value_type import ValueType
from metasched.target import Target

# Elements of each value on the way, 64 MiB of whole numbers: they are there while a node is read.
_MOST_ELEMENTS = 1 << 23


def known_elements(builder: GraphBuilder, value: GraphValue) -> Array | None:
    """The elements of a value; None where a call decides them, or there are too many to look at.

    It costs a compilation, of 10 to 20 ms, where they are no constant and no equal chain of nodes was asked about.
    """
    if (given := builder.constant_of(value.name)) is not None:
        return given
    found = None if value.depends else _chain(builder, value.name)
    if found is None:
        return None
    nodes, constants = found
    types = {name: builder.type_of(name) for node in nodes for name in (*node.inputs, *node.outputs)}
    if any(type_.size > _MOST_ELEMENTS for type_ in types.values()):
        return None
    return builder.remember(
        _signature(nodes, types, constants), lambda: _compute_value(nodes, types, constants, value.name)
    )


def _chain(builder: GraphBuilder, name: str) -> tuple[list[Node], dict[str, Array]] | None:
    """The nodes that compute a value of constants, in an order in which they can run, and these; None for any other."""
    nodes: dict[int, Node] = {}
    constants: dict[str, Array] = {}
    waiting: list[tuple[str, Node | None]] = [(name, None)]
    while waiting:
        name, made = waiting.pop()
        if made is not None:
            nodes.setdefault(id(made), made)
            continue
        if (array := builder.constant_of(name)) is not None:
            constants[name] = array
            continue
        maker = builder.maker(name)
        if not isinstance(maker, ShapeView) and (not isinstance(maker, Compute) or stages_of(maker.program) is None):
            return None
        if id(maker) not in nodes:
            waiting.append((name, maker))
            waiting += [(given, None) for given in maker.inputs]
    return list(nodes.values()), constants


def _signature(
    nodes: Sequence[Node], types: Mapping[str, ValueType], constants: Mapping[str, Array]
) -> tuple[object, ...]:
    """Equal for chains that compute the same: values are numbered in the order in which nodes make them."""
    numbers = {name: n for n, name in enumerate(name for node in nodes for name in node.outputs)}
    out: list[object] = []
    for node in nodes:
        given = tuple(
            (types[name], constants[name].tobytes()) if name in constants else numbers[name] for name in node.inputs
        )
        what = node.program if isinstance(node, Compute) else None
        out.append((what, given, tuple(types[name] for name in node.outputs)))
    return tuple(out)


def _compute_value(
    nodes: Sequence[Node], types: Mapping[str, ValueType], constants: Mapping[str, Array], name: str
) -> Array | None:
    """The elements of a value, computed on this machine whatever the network is for; None where no program of the whole
    chain says where it reads.
    """
    graph = Graph("known", types, (), ((name, name),), constants, tuple(nodes))
    views = {node.output: node.input for node in nodes if isinstance(node, ShapeView)}
    made = name
    while made in views:
        made = views[made]
    try:
        whole = merge_nodes(graph, nodes, (made,))
    except PlaceByData:
        return None
    (array,) = compute_outputs(whole.program, [constants[given] for given in whole.inputs], Target.detect())
    return array.reshape(types[name].shape)
