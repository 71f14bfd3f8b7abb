"""Nodes of a graph joined to one, and the program that it runs.

The program has the stages of all of them; a value between two of them becomes an intermediate buffer, or is written
into what reads it. Views between them are read through. Weights stay arguments, so that equal chains of nodes give
equal programs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from metasched.graph.fusion.canonical import canonical
from metasched.graph.fusion.expressions import map_reads, reads
from metasched.graph.fusion.known_constants import KnownConstant, known_constant, write_known_constants
from metasched.graph.fusion.stages import Stages, joined_name, program_of, stages_of
from metasched.graph.fusion.views import indices_through_view
from metasched.graph.ir import Compute, Graph, Node, ShapeView
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp
from metasched.ir.program import Program
from metasched.ir.source import FloatLit, Operation, Read, SourceExpr, Stage
from metasched.support.by_identity import Itself
from metasched.support.data_classes import dataclass


def merge_nodes(graph: Graph, nodes: Sequence[Node], outputs: Sequence[str]) -> Compute:
    """One node that computes `outputs` as these nodes do, which are in an order in which they can run.

    Raises ValueError where one of them has a program without written stages, see `stages_of`; PlaceByData where one
    reads what another makes by data, through a view that changes that dimension.
    """
    piece, names = _piece_of(graph, nodes, outputs)
    made = _merge_piece(piece)
    computes = [node for node in nodes if isinstance(node, Compute)]
    given = tuple(names[n] for n in made.inputs)
    return Compute(computes[-1].name, "+".join(_ops(computes)), made.program, given, tuple(outputs))


def _ops(computes: Sequence[Compute]) -> list[str]:
    return [op for node in computes for op in node.op.split("+")]


def merge_stages(graph: Graph, nodes: Sequence[Node], outputs: Sequence[str]) -> Stages:
    """The stages of nodes over the values of their graph, by names of their own.

    Raises what `merge_nodes` does.
    """
    return _stages_of_piece(_piece_of(graph, nodes, outputs)[0])


@dataclass(frozen=True)
class _PieceNode:
    """A node of a piece: its program, None for a view, and the numbers of the values."""

    program: Itself[Program] | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class _Piece:
    """Some nodes of a graph with numbers for its values: equal for what is joined in each of many equal layers.

    `consts` are constants, `zeros` those of them that are zero, `known` those that indices say.
    """

    nodes: tuple[_PieceNode, ...]
    types: tuple[ValueType, ...]
    consts: frozenset[int]
    zeros: frozenset[int]
    known: tuple[tuple[int, KnownConstant], ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class _MergedPiece:
    """What a piece computes, and the numbers of the values that the program reads."""

    program: Program
    inputs: tuple[int, ...]


def _piece_of(graph: Graph, nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[_Piece, list[str]]:
    """Nodes of a graph as a piece, and the names of its values. Raises ValueError for a program without stages."""
    numbers: dict[str, int] = {}

    def number_values(names: Sequence[str]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(name, len(numbers)) for name in names)

    own: list[_PieceNode] = []
    for node in nodes:
        if isinstance(node, ShapeView):
            own.append(_PieceNode(None, number_values([node.input]), number_values([node.output])))
        elif isinstance(node, Compute) and stages_of(node.program) is not None:
            own.append(_PieceNode(Itself(node.program), number_values(node.inputs), number_values(node.outputs)))
        else:
            raise ValueError(f"`{node.name}` has no program, or one of scalar arguments, parameters or named sizes")
    made = number_values(outputs)
    names = list(numbers)
    consts = frozenset(n for n, name in enumerate(names) if name in graph.constants)
    zeros = frozenset(n for n in consts if _is_zero(graph, names[n]))
    looked = ((n, known_constant(graph.constants[names[n]], graph.types[names[n]].dtype)) for n in sorted(consts))
    known = tuple((n, what) for n, what in looked if what is not None)
    return _Piece(tuple(own), tuple(graph.types[name] for name in names), consts, zeros, known, made), names


@lru_cache(maxsize=1 << 12)
def _merge_piece(piece: _Piece) -> _MergedPiece:
    made, inputs, _ = canonical(_stages_of_piece(piece))
    programs = [node.program.object for node in piece.nodes if node.program is not None]
    program = program_of(made, joined_name(program.name for program in programs))
    return _MergedPiece(program, tuple(int(name) for name in inputs))


@lru_cache(maxsize=1 << 12)
def _stages_of_piece(piece: _Piece) -> Stages:
    """The stages of a piece; values are named by their numbers."""
    types: dict[str, ValueType] = {}
    views: dict[str, str] = {}
    stages: list[Stage] = []
    for number, node in enumerate(piece.nodes):
        given, made = [str(n) for n in node.inputs], [str(n) for n in node.outputs]
        if node.program is None:
            views[made[0]] = given[0]
            types[given[0]] = piece.types[node.inputs[0]]
            continue
        own = stages_of(node.program.object)
        assert own is not None
        named = dict(zip((*own.inputs, *own.outputs), (*given, *made), strict=True))
        named |= {name: f"{number}:{name}" for name in own.types if name not in named}
        types |= {named[name]: type_ for name, type_ in own.types.items()}
        stages += _over_values(piece, own, named, views)
    computed = {name for stage in stages for name in stage.targets}
    given_ = tuple(name for name in types if name not in computed and name not in views)
    consts = frozenset(name for name in given_ if int(name) in piece.consts)
    return Stages(types, given_, consts, tuple(map(str, piece.outputs)), tuple(stages))


def _over_values(piece: _Piece, own: Stages, named: Mapping[str, str], views: Mapping[str, str]) -> list[Stage]:
    out = []
    zeros = {own_name for own_name, name in named.items() if name.isdecimal() and int(name) in piece.zeros}
    known = {str(number): what for number, what in piece.known}
    for stage in own.stages:
        extents = own.extents(stage)

        def change(read: Read, extents: Mapping[str, int] = extents) -> SourceExpr:
            name, indices = named[read.buffer], read.indices
            while name in views:
                source = views[name]
                shapes = piece.types[int(name)].shape, piece.types[int(source)].shape
                indices = indices_through_view(indices, *shapes, extents)
                name = source
            return replace(read, buffer=name, indices=indices)

        position = None if stage.position is None else named[stage.position]
        value = write_known_constants(map_reads(fold_zeros(stage, zeros), change), known)
        out.append(replace(stage, buffer=named[stage.buffer], value=value, position=position))
    return out


def canonical_compute(graph: Graph, node: Compute) -> Compute:
    """A node with the canonical program of what it computes; itself where its program has no written stages."""
    if stages_of(node.program) is None:
        return node
    return replace(merge_nodes(graph, [node], node.outputs), name=node.name, op=node.op)


def replace_nodes(graph: Graph, groups: Mapping[int, Compute], members: Collection[int]) -> Graph:
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


def fold_zeros(stage: Stage, zeros: Collection[str]) -> SourceExpr:
    """A stage's value with a literal for inputs that are zero; as it is where that might divide, or has no type."""
    value = stage.value
    if not any(read.buffer in zeros for read in reads(value)):
        return value
    divides = any(isinstance(node, Operation) and node.op in _DIVISIONS for node in value.walk())
    kept = [read for read in reads(value) if read.buffer not in zeros]
    if divides or not kept:
        return value
    return map_reads(value, lambda read: FloatLit(0.0) if read.buffer in zeros else read)


_DIVISIONS = (BinOp.DIV, BinOp.FLOORDIV, BinOp.MOD)
