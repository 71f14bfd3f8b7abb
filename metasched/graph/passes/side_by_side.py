"""Products of one value with several weights, such as those that make queries, keys and values, are one product.

Their weights are put side by side, once, along the dimension that becomes one of the results; the results are slices,
which are read in place (see `parts`). One kernel with more columns reads the value once, and has more work to share
among threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.kinds import Kind, kind_of
from metasched.graph.fusion.stages import Stages, parse_once, program_of, stages_of
from metasched.graph.ir import Compute, Graph, Node
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
from metasched.ir.source import Name, Read, Stage
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

# The dimension of each buffer that grows with the joined dimension of the result; None where none does.
_Dimensions = dict[str, int | None]


@graph_pass(after=("scales_into_weights",))
def side_by_side(graph: Graph, context: PassContext) -> Graph:
    """Products of one value with several weights are one product, whose results are slices."""
    made: dict[int, list[Node]] = {}
    left_out: set[int] = set()
    constants, types = dict(graph.constants), dict(graph.types)
    for numbers in _find_alike(graph):
        nodes = [node for n in numbers if isinstance(node := graph.nodes[n], Compute)]
        wide = _widen_nodes(graph, nodes)
        if wide is None:
            continue
        constants |= {name: array for name, (array, _) in wide.constants.items()}
        types |= {name: type_ for name, (_, type_) in wide.constants.items()}
        types[wide.node.outputs[0]] = wide.type
        made[numbers[0]] = [wide.node, *wide.slices]
        left_out.update(numbers[1:])
        context.remark(f"{listing(node.name for node in nodes)} are one product")
    nodes_ = [one for n, node in enumerate(graph.nodes) if n not in left_out for one in made.get(n, [node])]
    return remove_dead_code(replace(graph, nodes=tuple(nodes_), constants=constants, types=types))


def _find_alike(graph: Graph) -> list[list[int]]:
    """Nodes, by their numbers, with equal programs that read the same values but for their constants."""
    results = {name for _, name in graph.outputs}
    found: dict[Hashable, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        if isinstance(node, Compute) and len(node.outputs) == 1 and node.outputs[0] not in results:
            given = tuple(None if name in graph.constants else name for name in node.inputs)
            if None in given:
                found.setdefault((node.program.structural_hash(), given), []).append(number)
    return [numbers for numbers in found.values() if len(numbers) > 1]


@dataclass(frozen=True)
class _Wide:
    """Nodes side by side: one with all their results, new constants with their types, and the slices."""

    node: Compute
    type: ValueType
    constants: dict[str, tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ValueType]]
    slices: list[Node]


def _widen_nodes(graph: Graph, nodes: Sequence[Compute]) -> _Wide | None:
    """Nodes side by side; None where their programs are no products, or no dimension can be joined."""
    first, count = nodes[0], len(nodes)
    stages = stages_of(first.program)
    if stages is None or kind_of(stages) is not Kind.ANCHOR:
        return None
    same = {own for n, own in enumerate(stages.inputs) if len({node.inputs[n] for node in nodes}) == 1}
    (output,) = stages.outputs
    rank = stages.types[output].rank
    along = next((a for d in reversed(range(rank)) if (a := _dimensions(stages, d, same)) is not None), None)
    if along is None:
        return None
    joined = {name: _multiply_extent(type_, along.get(name), count) for name, type_ in stages.types.items()}
    result = f"{first.outputs[0]}.joined"
    constants, inputs = {}, []
    for n, own in enumerate(stages.inputs):
        dimension = along.get(own)
        if dimension is None:
            inputs.append(first.inputs[n])
            continue
        name = f"{first.inputs[n]}.joined.{first.outputs[0]}"
        array = np.concatenate([graph.constants[node.inputs[n]] for node in nodes], axis=dimension)
        constants[name] = (array, joined[own])
        inputs.append(name)
    program = program_of(replace(stages, types=joined), first.program.name)
    node = Compute(first.name, first.op, program, tuple(inputs), (result,))
    dimension = along[output]
    assert dimension is not None
    slices = [_slice(one, result, joined[output], stages.types[output], (dimension, n)) for n, one in enumerate(nodes)]
    return _Wide(node, joined[output], constants, slices)


def _multiply_extent(type_: ValueType, dimension: int | None, count: int) -> ValueType:
    shape = tuple(n * count if d == dimension else n for d, n in enumerate(type_.shape))
    return ValueType(type_.dtype, shape)


def _slice(node: Compute, whole: str, joined: ValueType, own: ValueType, place: tuple[int, int]) -> Node:
    """The node that takes one result out of all; `place` is the dimension and the number of the result."""
    dimension, number = place
    over = indices(own.rank)
    begin = number * own.shape[dimension]
    read = [f"{name} + {begin}" if d == dimension and begin else name for d, name in enumerate(over)]
    text = f"program slice(A: {joined}) -> Y: {own}:\n    {at('Y', over)} = {at('A', read)}\n"
    return Compute(node.name, "Slice", parse_once(text), (whole,), node.outputs)


def _dimensions(stages: Stages, dimension: int, same: set[str]) -> _Dimensions | None:
    """The dimension of each buffer that goes along one of the result: of results and weights.

    None where what does not go along it would differ: `same` are the inputs that the nodes have in common.
    """
    (output,) = stages.outputs
    found: _Dimensions = {output: dimension}
    for stage in reversed(stages.stages):
        own = found.get(stage.buffer)
        if stage.position is not None or not _follow(stages, stage, own, found):
            return None
    inputs = {name: found.get(name) for name in stages.inputs}
    if any(at_ is None and name not in same for name, at_ in inputs.items()):
        return None
    return found if any(at_ is not None for at_ in inputs.values()) else None


def _follow(stages: Stages, stage: Stage, dimension: int | None, found: _Dimensions) -> bool:
    """Note the dimensions that what a stage reads has along one of its own; whether that can be."""
    axis = None if dimension is None else stage.axes[dimension].name
    in_subscripts = 0
    for read in reads(stage.value):
        bare = [d for d, index in enumerate(read.indices) if index == Name(axis)] if axis else []
        in_subscripts += len(bare)
        at_ = bare[0] if bare else None
        if len(bare) > 1 or found.setdefault(read.buffer, at_) != at_ or (bare and not _can_grow(stages, read)):
            return False
    # Anywhere else, the index would count columns of other results, too.
    return in_subscripts == sum(1 for node in stage.value.walk() if node == Name(axis or ""))


def _can_grow(stages: Stages, read: Read) -> bool:
    return read.buffer not in stages.inputs or read.buffer in stages.consts
