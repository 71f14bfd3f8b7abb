"""A number that an operand of a product is multiplied by multiplies the result, where that has fewer elements.

Attention multiplies keys by a number before it takes their products with queries. For one query the result is far
smaller than the keys, which would be written out for it; so they would be where they are repeated for the queries of a
group, which `repeats` has read where they lie. What multiplies a result is joined with the product.

Only floats of 32 bits and more: a sum of halves may be too large before it is multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Compute, Graph, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.passes.movement import is_movement
from metasched.graph.passes.repeats import repeated_dimensions
from metasched.ir.nodes import BinOp, Reducer
from metasched.ir.source import FloatLit, IntLit, Name, Operation, Read, Reduce, Stage
from metasched.support.data_classes import dataclass

_TYPES = (DType.F32, DType.F64)
# The largest factor, and one by the least: what is summed without it is hardly too large or too small for that.
_LARGEST_FACTOR = 2.0**20


@graph_pass(after=("summed_windows",))
def factors(graph: Graph, context: PassContext) -> Graph:
    """A number that an operand of a product is multiplied by multiplies the result, where that has fewer elements."""
    producer = {name: node for node in graph.nodes for name in node.outputs}
    nodes: list[Node] = []
    for node in graph.nodes:
        made = _move_factors(graph, node, producer, context) if isinstance(node, Compute) else node
        nodes.append(made)
    return remove_dead_code(replace(graph, nodes=tuple(nodes)))


@dataclass(frozen=True)
class _Scaled:
    """A value that a number is multiplied by."""

    name: str
    factor: float


def _move_factors(graph: Graph, node: Compute, producer: Mapping[str, Node], context: PassContext) -> Compute:
    form = stages_of(node.program)
    if form is None or not _is_product(form):
        return node
    factor, given = 1.0, list(node.inputs)
    for place, name in enumerate(node.inputs):
        scaled = _scaled(graph, name, producer)
        is_large = graph.types[name].size > graph.types[node.outputs[0]].size
        if scaled is not None and (is_large or _is_repeated(scaled.name, producer)):
            factor, given[place] = factor * scaled.factor, scaled.name
            context.remark(f"`{node.name}`: its result is multiplied by {scaled.factor}, and `{name}` is not")
    if tuple(given) == node.inputs:
        return node
    return replace(node, program=program_of(_multiplied(form, factor), node.program.name), inputs=tuple(given))


def _is_product(form: Stages) -> bool:
    """Whether stages are one sum of products of two values, all of one type."""
    value = form.stages[0].value
    return (
        len(form.stages) == 1
        and isinstance(value, Reduce)
        and value.reducer is Reducer.SUM
        and value.cond is None
        and isinstance(value.operand, Operation)
        and value.operand.op is BinOp.MUL
        and isinstance(value.operand.a, Read)
        and isinstance(value.operand.b, Read)
        and value.operand.a.buffer != value.operand.b.buffer
        and {type_.dtype for type_ in form.types.values()} in ({dtype} for dtype in _TYPES)
    )


def _scaled(graph: Graph, name: str, producer: Mapping[str, Node]) -> _Scaled | None:
    """What a value is a multiple of, in its own shape; None where it is no such."""
    node = producer.get(name)
    form = stages_of(node.program) if isinstance(node, Compute) else None
    if form is None or not isinstance(node, Compute) or len(form.stages) != 1 or len(node.inputs) != 1:
        return None
    (stage,) = form.stages
    value = stage.value
    if not isinstance(value, Operation) or value.op is not BinOp.MUL or not isinstance(value.b, FloatLit):
        return None
    if not isinstance(value.a, Read) or graph.types[node.inputs[0]] != graph.types[name]:
        return None
    if not 1 / _LARGEST_FACTOR < abs(value.b.value) < _LARGEST_FACTOR:
        return None
    shape = graph.types[name].shape
    own = zip(value.a.indices, stage.axes, shape, strict=True)
    is_same = all(index == Name(axis.name) or (n == 1 and index == IntLit(0)) for index, axis, n in own)
    return _Scaled(node.inputs[0], value.b.value) if is_same else None


def _is_repeated(name: str, producer: Mapping[str, Node]) -> bool:
    """Whether a value is another that is repeated along a dimension, and moved."""
    node = producer.get(name)
    while isinstance(node, ShapeView) or (isinstance(node, Compute) and is_movement(node)):
        if isinstance(node, Compute) and repeated_dimensions(node):
            return True
        node = producer.get(node.inputs[0])
    return False


def _multiplied(form: Stages, factor: float) -> Stages:
    """A stage, and another that multiplies what it computes by a number."""
    (stage,) = form.stages
    name = "T"
    while name in form.types:
        name += "T"
    read = Read(name, tuple(Name(axis.name) for axis in stage.axes))
    last = Stage(None, stage.buffer, stage.axes, Operation(BinOp.MUL, read, FloatLit(factor)))
    types = {**form.types, name: form.types[stage.buffer]}
    return replace(form, types=types, stages=(replace(stage, buffer=name), last))
