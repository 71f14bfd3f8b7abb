"""Nodes of a graph joined to one, and the program that it runs.

The program has the stages of all of them; a value between two of them becomes an intermediate buffer, or is written
into what reads it. Views between them are read through. Weights stay arguments, so that equal chains of nodes give
equal programs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from metasched.graph.fusion.canonical import canonical
from metasched.graph.fusion.expressions import reads, with_reads
from metasched.graph.fusion.stages import Stages, joined_name, program_of, stages_of
from metasched.graph.fusion.views import through_view
from metasched.graph.ir import Compute, Graph, Node, ShapeView, ValueType
from metasched.ir.nodes import BinOp
from metasched.ir.source import FloatLit, Operation, Read, SourceExpr, Stage


def merged(graph: Graph, nodes: Sequence[Node], outputs: Sequence[str]) -> Compute:
    """One node that computes `outputs` as these nodes do, which are in an order in which they can run.

    Raises ValueError where one of them has a program without written stages, see `stages_of`; PlaceByData where one
    reads what another makes by data, through a view that changes that dimension.
    """
    stages = stages_together(graph, nodes, outputs)
    made, inputs, given = canonical(stages)
    computes = [node for node in nodes if isinstance(node, Compute)]
    program = program_of(made, joined_name(node.program.name for node in computes))
    last = computes[-1]
    return Compute(last.name, "+".join(_ops(computes)), program, inputs, given)


def _ops(computes: Sequence[Compute]) -> list[str]:
    return [op for node in computes for op in node.op.split("+")]


def stages_together(graph: Graph, nodes: Sequence[Node], outputs: Sequence[str]) -> Stages:
    """The stages of nodes over the values of their graph, by these values' names."""
    types: dict[str, ValueType] = {}
    views: dict[str, str] = {}
    stages: list[Stage] = []
    for number, node in enumerate(nodes):
        if isinstance(node, ShapeView):
            views[node.output] = node.input
            types[node.input] = graph.types[node.input]
            continue
        own = stages_of(node.program) if isinstance(node, Compute) else None
        if own is None:
            raise ValueError(f"`{node.name}` has no program, or one of scalar arguments, parameters or named sizes")
        named = dict(zip((*own.inputs, *own.outputs), (*node.inputs, *node.outputs), strict=True))
        named |= {name: f"{number}:{name}" for name in own.types if name not in named}
        types |= {named[name]: type_ for name, type_ in own.types.items()}
        stages += _over_values(graph, own, named, views)
    computed = {name for stage in stages for name in stage.targets}
    given = tuple(name for name in types if name not in computed and name not in views)
    consts = frozenset(name for name in given if name in graph.constants)
    return Stages(types, given, consts, tuple(outputs), tuple(stages))


def _over_values(graph: Graph, own: Stages, named: Mapping[str, str], views: Mapping[str, str]) -> list[Stage]:
    out = []
    zeros = {own_name for own_name, name in named.items() if _is_zero(graph, name)}
    for stage in own.stages:
        extents = own.extents(stage)

        def change(read: Read, extents: Mapping[str, int] = extents) -> SourceExpr:
            name, indices = named[read.buffer], read.indices
            while name in views:
                source = views[name]
                indices = through_view(indices, graph.types[name].shape, graph.types[source].shape, extents)
                name = source
            return replace(read, buffer=name, indices=indices)

        position = None if stage.position is None else named[stage.position]
        value = with_reads(with_zeros(stage, zeros), change)
        out.append(replace(stage, buffer=named[stage.buffer], value=value, position=position))
    return out


def canonical_compute(graph: Graph, node: Compute) -> Compute:
    """A node with the canonical program of what it computes; itself where its program has no written stages."""
    if stages_of(node.program) is None:
        return node
    return replace(merged(graph, [node], node.outputs), name=node.name, op=node.op)


def replaced(graph: Graph, groups: Mapping[int, Compute], members: Collection[int]) -> Graph:
    """A graph with some nodes left out, by their numbers, and others put at the numbers of some of them."""
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        if number in groups:
            nodes.append(groups[number])
        elif number not in members:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _is_zero(graph: Graph, name: str) -> bool:
    """Whether a value is a constant of one element that is zero, and positive."""
    array = graph.constants.get(name)
    if array is None or array.size != 1 or not graph.types[name].dtype.is_float:
        return False
    number = float(array.reshape(-1)[0])
    return number == 0 and math.copysign(1, number) > 0


def with_zeros(stage: Stage, zeros: Collection[str]) -> SourceExpr:
    """A stage's value with a literal for inputs that are zero; as it is where that might divide, or has no type."""
    value = stage.value
    divides = any(isinstance(node, Operation) and node.op in _DIVISIONS for node in value.walk())
    kept = [read for read in reads(value) if read.buffer not in zeros]
    if divides or not kept:
        return value
    return with_reads(value, lambda read: FloatLit(0.0) if read.buffer in zeros else read)


_DIVISIONS = (BinOp.DIV, BinOp.FLOORDIV, BinOp.MOD)
