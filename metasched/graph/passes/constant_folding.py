"""What depends on constants alone is computed once, before anything runs.

Results that are much larger than what they are computed from stay computed: an expanded constant would take memory, and
reading it takes as long as making it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import numpy as np

from metasched.graph.fusion.stages import program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.value_type import type_of
from metasched.ir.program import Program
from metasched.ir.prologue import MOST_GROWTH, NO_MATTER
from metasched.reference.execution import reference
from metasched.runtime.addresses import aligned_empty
from metasched.runtime.compiled import build
from metasched.target import Target

# Elements and operations of a program that the reference runs, in 10 ms at most: a kernel takes 11 to 18 to make.
_MOST_REFERENCE_WORK = 16_000


@graph_pass(after=("integer_products",))
def constant_folding(graph: Graph, context: PassContext) -> Graph:
    """What depends on constants alone is computed once, before anything runs."""
    constants, nodes = dict(graph.constants), list[Node]()
    types = dict(graph.types)
    for node in graph.nodes:
        if any(name not in constants for name in node.inputs):
            nodes.append(node)
        elif isinstance(node, ShapeView):
            constants[node.output] = constants[node.input].reshape(types[node.output].shape)
        elif not isinstance(node, Compute):
            nodes.append(node)
        elif _grows(graph, node):
            nodes.append(node)
            context.remark(f"not computed ahead: `{node.name}` is larger than what it is computed from")
        else:
            made = compute_outputs(node.program, [constants[name] for name in node.inputs], context.options.target)
            constants |= dict(zip(node.outputs, made, strict=True))
    if len(nodes) == len(graph.nodes):
        return graph
    new = constants.keys() - graph.constants.keys()
    nodes = [_mark_constants(node, new) for node in nodes]
    return remove_dead_code(replace(graph, nodes=tuple(nodes), constants=constants, types=types))


def _mark_constants(node: Node, new: Set[str]) -> Node:
    """The node, whose program says which of its inputs are constants now: they are weights, as those of the model."""
    if not isinstance(node, Compute) or new.isdisjoint(node.inputs):
        return node
    stages = stages_of(node.program)
    if stages is None:
        return node
    found = {own for own, name in zip(stages.inputs, node.inputs, strict=True) if name in new}
    return replace(node, program=program_of(replace(stages, consts=stages.consts | found), node.program.name))


def _grows(graph: Graph, node: Compute) -> bool:
    given = sum(graph.types[name].nbytes for name in node.inputs)
    made = sum(graph.types[name].nbytes for name in node.outputs)
    return made > MOST_GROWTH * given + NO_MATTER


def compute_outputs(program: Program, given: list[Array], target: Target) -> list[Array]:
    """The outputs of a program for arrays of its inputs' types, computed on this machine whatever the target has."""
    size = sum(array.size for array in given) + program.work.operations
    if size <= _MOST_REFERENCE_WORK:
        made = reference(program)(*given)
        return list(made) if isinstance(made, tuple) else [made]
    given = [np.require(array, requirements=("C", "A")) for array in given]
    kernel = build(program.func, target.runnable_here())
    outputs = [aligned_empty(type_of(b).shape, type_of(b).dtype.numpy) for b in program.outputs]
    kernel.bind(*given, *outputs)()
    return outputs
