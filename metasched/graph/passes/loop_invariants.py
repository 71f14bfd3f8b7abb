"""What no step of a loop changes is computed once, before the loop.

Exporters write such into the body: products of what is captured, masks, transposed weights. What would be much larger
than what it is computed from stays where it is: steps read that from the caches sooner than they read the larger from
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from metasched.graph.ir import Compute, Graph, LoopNode, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.loop_node import LoopInput, LoopInputKind
from metasched.graph.loops.building import drop_unread_inputs
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.text import fresh_name
from metasched.ir.prologue import MOST_GROWTH, NO_MATTER


@graph_pass(after=("constant_folding",))
def loop_invariants(graph: Graph, context: PassContext) -> Graph:
    """What no step of a loop changes is computed once, before it."""
    if not any(graph.loops):
        return graph
    lifting = _Lifting(graph, context)
    return lifting.graph()


class _Lifting:
    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._context = context
        self._types = dict(graph.types)
        self._constants = dict(graph.constants)

    def graph(self) -> Graph:
        nodes = [made for node in self._graph.nodes for made in self._lift_from_loop(node)]
        return replace(self._graph, nodes=tuple(nodes), types=self._types, constants=self._constants)

    def _lift_from_loop(self, node: Node) -> Iterator[Node]:
        """A node, and before it what of its body no step changes. What loops in its body lift is in the body then."""
        if not isinstance(node, LoopNode) or node.most == 1:  # a branch may not be taken
            yield node
            return
        body = loop_invariants(node.body, self._context)
        same = {own.body: name for name, own in node.inputs_of_kind(LoopInputKind.WHOLE)}
        made: list[str] = []
        kept: list[Node] = []
        for inner in body.nodes:
            if not isinstance(inner, Compute | ShapeView) or not self._may_lift(inner, body, same):
                kept.append(inner)
                continue
            for name in inner.inputs:
                if name not in same:
                    same[name] = self._lift_constant(name, body)
            names = {name: self._add_value(name, body) for name in inner.outputs}
            yield _rename_values(inner, same, names)
            same |= names
            made += names
            self._context.remark(f"`{inner.name}` is computed once, before `{node.name}`")
        yield _pass_values(node, replace(body, nodes=tuple(kept)), {name: same[name] for name in made})

    def _may_lift(self, node: Compute | ShapeView, body: Graph, same: dict[str, str]) -> bool:
        """Whether a node reads nothing that steps change, and something that is no constant."""
        if not all(name in same or name in body.constants for name in node.inputs):
            return False
        if all(name in body.constants for name in node.inputs):  # the body's own passes compute it ahead
            return False
        given = sum(body.types[name].nbytes for name in node.inputs)
        return sum(body.types[name].nbytes for name in node.outputs) <= MOST_GROWTH * given + NO_MATTER

    def _lift_constant(self, name: str, body: Graph) -> str:
        """A constant of a body as one of the graph around it."""
        array = body.constants[name]
        if self._constants.get(name) is array:
            return name
        own = self._add_value(name, body)
        self._constants[own] = array
        return own

    def _add_value(self, name: str, body: Graph) -> str:
        type_ = body.types[name]
        name = fresh_name(name, self._types)
        self._types[name] = type_
        return name


def _rename_values(node: Compute | ShapeView, inputs: dict[str, str], outputs: dict[str, str]) -> Node:
    if isinstance(node, ShapeView):
        return replace(node, input=inputs[node.input], output=outputs[node.output])
    given, made = (tuple(names[n] for n in own) for names, own in ((inputs, node.inputs), (outputs, node.outputs)))
    return replace(node, inputs=given, outputs=made)


def _pass_values(loop: LoopNode, body: Graph, values: dict[str, str]) -> LoopNode:
    """A loop that reads values of the graph around it, which its body computed before, by their names there."""
    body = replace(body, inputs=(*body.inputs, *values))
    taken = replace(
        loop,
        body=remove_dead_code(body),
        inputs=(*loop.inputs, *values.values()),
        takes=(*loop.takes, *(LoopInput(LoopInputKind.WHOLE, name) for name in values)),
    )
    return drop_unread_inputs(taken)
