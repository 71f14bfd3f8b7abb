"""Transposes, slices and broadcasts are read through: what reads their results reads what they move, elsewhere.

A node that only moves elements, each from a place that is linear in its indices, costs a pass over memory; read
through, it costs nothing. Several readers each read through it. It stays where a reader could not say the place in
linear indices, as behind a view that puts dimensions together: then it is left to what computes its input, which can
write in that order (see `fusion`). It stays, too, where it puts side by side what a reader takes in vectors from places
that data say, and no less of it than there is: elsewhere each element would be gathered.

A slice that is one stretch of memory of what another node computes, or of an input that many nodes read, stays, too: it
is read where it lies (see `parts`), and what reads such slices, as the steps of loops and recurrent layers do, are
equal programs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from metasched.graph.fusion.canonical import simplify_stages
from metasched.graph.fusion.copies import copied_boxes
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.indices import linear_form
from metasched.graph.fusion.merge import merge_nodes
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.fusion.views import PlaceByData
from metasched.graph.ir import Compute, Graph, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.value_type import type_of
from metasched.ir.nodes import BinOp
from metasched.ir.pitch import is_packed, packed_strides
from metasched.ir.source import Name, Operation, Read
from metasched.support.by_identity import remembered_by_identity

# An input that so many nodes read is one that a loop takes apart: its steps are to be equal programs.
_LEAST_READERS = 8
_REFUSAL = "its places would not be linear, or not be checked, or what data say the places of would be apart"


@graph_pass(after=("layouts",))
def movement(graph: Graph, context: PassContext) -> Graph:
    """Transposes, slices and broadcasts are read through."""
    producer: dict[str, Node] = {}
    nodes: list[Node] = []
    readers = Counter(name for node in graph.nodes for name in node.inputs)
    taken_apart = {name for name in graph.inputs if readers[name] >= _LEAST_READERS}
    for node in graph.nodes:
        made = _read_through(graph, node, producer, taken_apart, context) if isinstance(node, Compute) else node
        nodes.append(made)
        producer |= dict.fromkeys(made.outputs, made)
    return remove_dead_code(replace(graph, nodes=tuple(nodes)))


def _read_through(
    graph: Graph, node: Compute, producer: dict[str, Node], taken_apart: Collection[str], context: PassContext
) -> Compute:
    """A node that reads what moved elements come from, as far as it can say where."""
    refused: set[str] = set()
    while True:
        chain = next(
            (c for name in node.inputs if name not in refused and (c := _movement_chain(name, producer, taken_apart))),
            None,
        )
        if chain is None:
            return node
        (name,) = chain[-1].outputs
        made = _merge_chain(graph, [*chain, node], node)
        if made is None:
            refused.add(name)
            context.remark(f"`{node.name}` does not read through `{chain[0].name}`: {_REFUSAL}")
        else:
            node = made


def _movement_chain(name: str, producer: dict[str, Node], inputs: Collection[str]) -> list[Node]:
    """A node that moves elements and the views of its result, up to a value; none where that is not what it is."""
    chain: list[Node] = []
    while isinstance(node := producer.get(name), ShapeView):
        chain.insert(0, node)
        name = node.input
    if not isinstance(node, Compute) or not is_movement(node) or _is_stretch(node, producer, inputs):
        return []
    return [node, *chain]


def _is_stretch(node: Compute, producer: dict[str, Node], inputs: Collection[str]) -> bool:
    """Whether a node takes elements that lie side by side of what is computed or one of `inputs`, and moves none."""
    name = node.inputs[0]
    while isinstance(view := producer.get(name), ShapeView):
        name = view.input
    computed = producer.get(name)
    if name not in inputs and (not isinstance(computed, Compute) or is_movement(computed)):
        return False
    boxes = copied_boxes(node.program.func) or ()
    if len(boxes) != 1:
        return False
    given, made = (type_of(buffer).shape for buffer in (node.program.inputs[0], node.program.outputs[0]))
    return math.prod(made) < math.prod(given) and is_packed(made, boxes[0].strides(packed_strides(given)))


def is_movement(node: Compute) -> bool:
    """Whether a node only moves elements, each from a place that is linear in its indices."""
    stages = stages_of(node.program)
    return stages is not None and _is_movement(stages)


@remembered_by_identity
def _is_movement(stages: Stages) -> bool:
    stages = simplify_stages(stages)
    if len(stages.stages) != 1 or not isinstance(stages.stages[0].value, Read):
        return False
    (stage,) = stages.stages
    assert isinstance(stage.value, Read)
    extents = stages.extents(stage)
    return all(linear_form(index, extents) is not None for index in stage.value.indices) and not _count_quotients(
        stages
    )


def _merge_chain(graph: Graph, nodes: list[Node], reader: Compute) -> Compute | None:
    """The last node reading through those before it; None where its places would not be linear, or not be checked."""
    before = stages_of(reader.program)
    if before is None:
        return None
    try:
        made = merge_nodes(graph, nodes, reader.outputs)
    except PlaceByData:
        return None
    after = stages_of(made.program)
    assert after is not None
    if _count_quotients(after) > _count_quotients(before) or len(after.stages) > len(before.stages):
        return None
    if _count_rows_by_data(after) < _count_rows_by_data(before):
        return None
    return replace(made, name=reader.name, op=reader.op)


@remembered_by_identity
def _count_quotients(stages: Stages) -> int:
    """Quotients and remainders in subscripts."""
    return sum(
        isinstance(node, Operation) and node.op in (BinOp.FLOORDIV, BinOp.MOD)
        for stage in stages.stages
        for read in reads(stage.value)
        for index in read.indices
        for node in index.walk()
    )


@remembered_by_identity
def _count_rows_by_data(stages: Stages) -> int:
    """Reads of rows at places that data say, at least as many elements as there are: a vector is one load for each."""
    return sum(
        _is_row_by_data(read) and stages.iterations(stage) >= stages.types[read.buffer].size
        for stage in stages.stages
        for read in reads(stage.value)
    )


def _is_row_by_data(read: Read) -> bool:
    *places, last = read.indices or (None,)
    return isinstance(last, Name) and any(isinstance(node, Read) for place in places for node in place.walk())
