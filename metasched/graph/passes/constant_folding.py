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

# Bytes of a value that is too large to be kept, and that something small may be computed from.
_MOST_LET_GO = 1 << 24
# Elements and operations of a program that the reference runs, in 10 ms at most: a kernel takes 11 to 18 to make.
_MOST_REFERENCE_WORK = 16_000


@graph_pass(after=("integer_products",))
def constant_folding(graph: Graph, context: PassContext) -> Graph:
    """What depends on constants alone is computed once, before anything runs."""
    folding = _Folding(graph, context)
    nodes = [node for node in graph.nodes if not folding.fold(node)]
    if len(nodes) == len(graph.nodes):
        return graph
    new = folding.constants.keys() - graph.constants.keys()
    nodes = [_mark_constants(node, new) for node in nodes]
    return remove_dead_code(replace(graph, nodes=tuple(nodes), constants=folding.constants))


class _Folding:
    """What is known of a graph's values ahead of all inputs.

    A value that is too large to be kept, such as a mask of all pairs of places, may be what a small one is computed
    from, such as whether a row is masked as a whole. It is computed for that then, and let go.
    """

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self.constants = dict(graph.constants)
        self._graph = graph
        self._context = context
        self._large: dict[str, Node] = {}  # what makes a value that is known and not kept
        self._origins: dict[str, frozenset[str]] = {}  # the constants that such a value is computed from
        self._made: dict[str, Array] = {}

    def fold(self, node: Node) -> bool:
        """Whether a node's outputs are constants now."""
        if not isinstance(node, ShapeView | Compute) or not all(self._is_known(name) for name in node.inputs):
            return False
        if self._grows(node):
            self._keep_apart(node)
            return False
        for name, array in zip(node.outputs, self._run(node), strict=True):
            self.constants[name] = array
        return True

    def _is_known(self, name: str) -> bool:
        return name in self.constants or name in self._large

    def _grows(self, node: Compute | ShapeView) -> bool:
        if isinstance(node, ShapeView):
            return node.input in self._large
        given = sum(self.constants[name].nbytes for name in self._origins_of(node))
        return self._nbytes(node) > MOST_GROWTH * given + NO_MATTER

    def _nbytes(self, node: Node) -> int:
        return sum(self._graph.types[name].nbytes for name in node.outputs)

    def _origins_of(self, node: Node) -> frozenset[str]:
        return frozenset[str]().union(*(self._origins.get(name, frozenset([name])) for name in node.inputs))

    def _keep_apart(self, node: Node) -> None:
        if isinstance(node, Compute):
            self._context.remark(f"not computed ahead: `{node.name}` is larger than what it is computed from")
        if self._nbytes(node) > _MOST_LET_GO:
            return
        for name in node.outputs:
            self._large[name] = node
            self._origins[name] = self._origins_of(node)

    def _run(self, node: Node) -> list[Array]:
        given = [self._value(name) for name in node.inputs]
        if isinstance(node, ShapeView):
            return [given[0].reshape(self._graph.types[node.output].shape)]
        assert isinstance(node, Compute)
        return compute_outputs(node.program, given, self._context.options.target)

    def _value(self, name: str) -> Array:
        if name in self.constants:
            return self.constants[name]
        if name not in self._made:
            node = self._large[name]
            self._made |= dict(zip(node.outputs, self._run(node), strict=True))
        return self._made[name]


def _mark_constants(node: Node, new: Set[str]) -> Node:
    """The node, whose program says which of its inputs are constants now: they are weights, as those of the model."""
    if not isinstance(node, Compute) or new.isdisjoint(node.inputs):
        return node
    stages = stages_of(node.program)
    if stages is None:
        return node
    found = {own for own, name in zip(stages.inputs, node.inputs, strict=True) if name in new}
    return replace(node, program=program_of(replace(stages, consts=stages.consts | found), node.program.name))


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
