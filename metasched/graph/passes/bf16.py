"""Factors of products of matrices and of convolutions are bf16, and so are values between kernels.

Sums are f32, and so is everything that is computed inside a kernel. Weights are rounded at load. Inputs and outputs of
the network stay as they are. Of the values between kernels those become bf16 that are factors, or come from products
and are not added up: so the scores of a softmax and the input of a layer norm keep their digits, and so does what is
computed from positions and tables. It is the network's precision that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Compute, Graph, InPlace, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.precision.narrowing import WIDE_TYPES, FloatFlow, narrow_stages
from metasched.graph.value_type import ValueType

NARROW_TYPE = DType.BF16


@graph_pass(after=("bytes_between", "scales_into_weights", "side_by_side"))
def bf16(graph: Graph, context: PassContext) -> Graph:
    """Factors of products, and values between kernels that come from products, are bf16 where that is asked for."""
    if context.options.precision is not ProductPrecision.BF16:
        return graph
    return remove_dead_code(_Narrowing(graph, context).graph())


class _Narrowing:
    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._context = context
        self._flows = {
            id(node): FloatFlow(stages) for node in graph.computes if (stages := stages_of(node.program)) is not None
        }
        self._roots: dict[str, str] = {}
        for node in graph.nodes:
            if isinstance(node, ShapeView | InPlace):
                self._join_view(node)
        self._narrow = self._find_narrow_roots()
        self._constants: dict[str, str] = {}

    # --- which values

    def _join_view(self, node: Node) -> None:
        """A view has the elements of what it is a view of."""
        first, *others = (self._root(name) for name in (*node.inputs, *node.outputs))
        self._roots.update((other, first) for other in others if other != first)

    def _root(self, name: str) -> str:
        while name in self._roots:
            name = self._roots[name]
        return name

    def _find_narrow_roots(self) -> frozenset[str]:
        """The values that become narrow, by their roots."""
        graph = self._graph
        given = {self._root(name) for name in (*graph.inputs, *graph.constants)}
        fixed = given | {self._root(name) for _, name in graph.outputs}
        fixed.update(self._root(name) for loop in graph.loops for name in (*loop.inputs, *loop.outputs))
        factors = set[str]()
        for node in graph.computes:
            flow = self._flows.get(id(node))
            if flow is None:
                fixed.update(map(self._root, (*node.inputs, *node.outputs)))
                self._context.remark(f"`{node.name}` stays as it is: its program has scalars or named sizes")
            else:
                factors.update(
                    self._root(value) for value in _values_of_inputs(flow.inputs_of_factors, flow.stages, node)
                )
        known, summed = factors - given, set[str]()
        for node, flow in self._nodes_with_flows():
            coming = [own for own, value in node.input_values(flow.stages.inputs).items() if self._root(value) in known]
            outputs = dict(zip(flow.stages.outputs, node.outputs, strict=True))
            known.update(self._root(outputs[name]) for name in flow.outputs_of_products(coming))
            summed.update(self._root(value) for value in _values_of_inputs(flow.inputs_of_sums, flow.stages, node))
        return self._with_joined((factors | known - summed) - fixed, fixed | summed)

    def _with_joined(self, narrow: set[str], wide: set[str]) -> frozenset[str]:
        """Narrow values, and what is joined with them to one: else the result could not be in one place with its parts.

        Concatenations are looked at from the last to the first, so that those of concatenations are known.
        """
        found = set(narrow)
        for node, flow in reversed(list(self._nodes_with_flows())):
            roots = {self._root(value) for value in _values_of_inputs(flow.joined_inputs, flow.stages, node)}
            if not roots.isdisjoint(found) and self._root(node.outputs[0]) in found:
                found |= roots - wide
        return frozenset(found)

    def _nodes_with_flows(self) -> Iterator[tuple[Compute, FloatFlow]]:
        return ((node, self._flows[id(node)]) for node in self._graph.computes if id(node) in self._flows)

    # --- the graph

    def graph(self) -> Graph:
        graph = self._graph
        nodes = tuple(self._rewrite_node(node) for node in graph.nodes)
        types = {name: self._new_type(name, type_) for name, type_ in graph.types.items()}
        types |= {new: replace(graph.types[name], dtype=NARROW_TYPE) for name, new in self._constants.items()}
        constants = dict(graph.constants)
        for name, new in self._constants.items():
            constants[new] = graph.constants[name].astype(NARROW_TYPE.numpy)
        return replace(graph, nodes=nodes, types=types, constants=constants)

    def _new_type(self, name: str, type_: ValueType) -> ValueType:
        return replace(type_, dtype=NARROW_TYPE) if self._becomes_narrow(name) else type_

    def _becomes_narrow(self, name: str) -> bool:
        return self._graph.types[name].dtype in WIDE_TYPES and self._root(name) in self._narrow

    def _rewrite_node(self, node: Node) -> Node:
        flow = self._flows.get(id(node))
        if not isinstance(node, Compute) or flow is None:
            return node
        given = node.input_values(flow.stages.inputs)
        weights = [name for name in flow.inputs_of_factors if given[name] in self._graph.constants]
        values = {**given, **dict(zip(flow.stages.outputs, node.outputs, strict=True))}
        boundary = [*weights, *(own for own, value in values.items() if self._becomes_narrow(value))]
        if not boundary and not flow.factors:
            return node
        inputs = tuple(self._narrow_constant(value) if name in weights else value for name, value in given.items())
        program = program_of(narrow_stages(flow.stages, boundary, NARROW_TYPE), node.program.name)
        return replace(node, program=program, inputs=inputs)

    def _narrow_constant(self, name: str) -> str:
        """The narrow constant that is made of one."""
        if name not in self._constants:
            own, number = f"{name}.{NARROW_TYPE}", 1
            while own in self._graph.types:
                own, number = f"{name}.{NARROW_TYPE}.{number}", number + 1
            self._constants[name] = own
        return self._constants[name]


def _values_of_inputs(names: frozenset[str], stages: Stages, node: Compute) -> list[str]:
    """The values that some inputs of a program are."""
    return [value for own, value in node.input_values(stages.inputs).items() if own in names]
