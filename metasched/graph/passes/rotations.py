"""Two parts of a value that change places, as `roll` is exported, are a rotation: an index with a remainder.

So the value is read once for each element, as transposes read theirs, and nodes around can be joined with it: shifted
windows of an image, say, are cut out where a norm before them is computed, and put back where they are added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from metasched.graph.fusion.indices import linear_form
from metasched.graph.fusion.merge import merge_nodes
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Compute, Graph, Node
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.passes.movement import is_movement
from metasched.ir.nodes import BinOp
from metasched.ir.source import IfElse, IntLit, Name, Operation, Read, SourceExpr, Stage

# Neighbours that stay beside one another at least: vectors go along them.
_LEAST_NEIGHBOURS = 16


@graph_pass(after=("movement",))
def rotations(graph: Graph, context: PassContext) -> Graph:
    """Two parts of a value that change places are read by an index with a remainder."""
    producer = {name: node for node in graph.nodes for name in node.outputs}
    nodes = [
        _rewrite_rotation(graph, node, producer, context) if isinstance(node, Compute) else node for node in graph.nodes
    ]
    return remove_dead_code(replace(graph, nodes=tuple(nodes)))


def _rewrite_rotation(graph: Graph, node: Compute, producer: Mapping[str, Node], context: PassContext) -> Compute:
    whole = _merge_parts(graph, node, producer)
    stages = None if whole is None else stages_of(whole.program)
    if whole is None or stages is None or len(stages.stages) != 1:
        return node
    (stage,) = stages.stages
    value = _rotation(stages, stage)
    if value is None:
        return node
    context.remark(f"`{node.name}` rotates `{whole.inputs[0]}`")
    made = replace(stages, stages=(replace(stage, value=value),))
    return replace(node, program=program_of(made, node.program.name), inputs=whole.inputs)


def _merge_parts(graph: Graph, node: Compute, producer: Mapping[str, Node]) -> Compute | None:
    """A node that reads one value, and no parts of it; None where it reads several."""
    if len(node.inputs) == 1 or stages_of(node.program) is None:
        return node
    parts = [part for name in node.inputs if isinstance(part := producer.get(name), Compute) and is_movement(part)]
    if len(node.inputs) != 2 or len(parts) != 2 or parts[0].inputs != parts[1].inputs:
        return None
    return merge_nodes(graph, [*parts, node], node.outputs)


def _rotation(stages: Stages, stage: Stage) -> Read | None:
    """The element that a stage reads of an input one part of which it puts behind the other; None where it does not."""
    match stage.value:
        case IfElse(
            cond=Operation(op=BinOp.LT, a=Name(name=axis), b=IntLit(value=end)),
            then=Read() as first,
            otherwise=Read() as last,
        ) if first.buffer == last.buffer:
            pass
        case _:
            return None
    shape, own = stages.types[first.buffer].shape, stages.types[stage.buffer].shape
    place = next((dim for dim, a in enumerate(stage.axes) if a.name == axis), None)
    moved = [dim for dim, (a, b) in enumerate(zip(first.indices, last.indices, strict=True)) if a != b]
    if place is None or len(moved) != 1 or prod(own[place + 1 :]) < _LEAST_NEIGHBOURS:
        return None
    (dim,) = moved
    extents = stages.extents(stage)
    offsets = [_offset(read.indices[dim], axis, extents) for read in (first, last)]
    if shape[dim] != own[place] or offsets != [shape[dim] - end, -end]:
        return None
    index = Operation(BinOp.MOD, Operation(BinOp.ADD, Name(axis), IntLit(shape[dim] - end)), IntLit(shape[dim]))
    return replace(first, indices=tuple(index if d == dim else e for d, e in enumerate(first.indices)))


def _offset(index: SourceExpr, axis: str, extents: dict[str, int]) -> int | None:
    """What is added to an index of a stage; None where it is anything else."""
    found = linear_form(index, extents)
    return found.constant if found is not None and found.terms == ((Name(axis), 1),) else None


def rotated_index(index: SourceExpr, extent: int) -> str | None:
    """The index of a stage that an index rotates along a dimension of so many elements; None for any other."""
    match index:
        case Operation(op=BinOp.MOD, a=Operation(op=BinOp.ADD, a=Name(name=name), b=IntLit()), b=IntLit(value=by)):
            return name if by == extent else None
    return None
