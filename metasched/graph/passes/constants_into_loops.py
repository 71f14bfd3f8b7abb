"""What a loop reads that is computed of constants alone is computed in its body, where passes see what it is made of.

Import puts it before the loop, as no step changes it. There a dequantised weight would be made of its bytes, and the
product that reads it would be one of floats. What is known at load is computed then, whichever graph it is in.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.graph.ir import Array, Compute, Graph, LoopNode, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.loop_node import LoopInputKind
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.text import fresh_name
from metasched.support.messages import listing


@graph_pass(after=("dead_code",))
def constants_into_loops(graph: Graph, context: PassContext) -> Graph:
    """What a loop reads that is computed of constants alone is computed in its body."""
    makers: dict[str, Compute | ShapeView] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, LoopNode):
            nodes.append(_compute_in_body(node, graph, makers, context))
            continue
        if isinstance(node, Compute | ShapeView) and all(n in makers or n in graph.constants for n in node.inputs):
            makers |= dict.fromkeys(node.outputs, node)
        nodes.append(node)
    return graph if tuple(nodes) == graph.nodes else remove_dead_code(replace(graph, nodes=tuple(nodes)))


def _compute_in_body(
    loop: LoopNode, graph: Graph, makers: dict[str, Compute | ShapeView], context: PassContext
) -> LoopNode:
    """A loop whose body computes what it reads of these makers."""
    names = {name: own.body for name, own in loop.inputs_of_kind(LoopInputKind.WHOLE) if name in makers}
    if not names:
        return loop
    taken = _Body(loop, graph, names)
    needed = list(names)
    chain: dict[int, Compute | ShapeView] = {}
    while needed:
        name = needed.pop()
        if name in makers and id(makers[name]) not in chain:
            chain[id(makers[name])] = makers[name]
            needed += makers[name].inputs
    for node in graph.nodes:
        if id(node) in chain:
            taken.add(chain[id(node)])
    context.remark(f"`{loop.name}` computes {listing(names)} of constants in its body")
    return taken.loop()


class _Body:
    """A body to which nodes of the graph around it are added; `names` are what it calls what they make."""

    def __init__(self, loop: LoopNode, graph: Graph, names: dict[str, str]) -> None:
        self._loop = loop
        self._graph = graph
        self._given = dict(names)
        self._names = dict(names)
        self._nodes: list[Node] = []
        self._types = dict(loop.body.types)
        self._constants: dict[str, Array] = dict(loop.body.constants)

    def add(self, node: Compute | ShapeView) -> None:
        """Compute what a node does, of constants or of what was added before."""
        inputs = tuple(self._name_in_body(name) for name in node.inputs)
        for name in node.outputs:
            if name not in self._names:
                self._names[name] = self._add_value(name)
        outputs = tuple(self._names[name] for name in node.outputs)
        if isinstance(node, ShapeView):
            self._nodes.append(replace(node, input=inputs[0], output=outputs[0]))
        else:
            self._nodes.append(replace(node, inputs=inputs, outputs=outputs))

    def _name_in_body(self, name: str) -> str:
        if name not in self._names:
            array = self._graph.constants[name]
            same = self._constants.get(name) is array
            self._names[name] = name if same else self._add_value(name)
            self._constants[self._names[name]] = array
        return self._names[name]

    def _add_value(self, name: str) -> str:
        own = fresh_name(name, self._types)
        self._types[own] = self._graph.types[name]
        return own

    def loop(self) -> LoopNode:
        """The loop with this body, which is not given what it computes."""
        body, loop, given = self._loop.body, self._loop, {*self._given.values()}
        pairs = [(name, own) for name, own in zip(loop.inputs, loop.takes, strict=True) if own.body not in given]
        made = replace(
            body,
            inputs=tuple(name for name in body.inputs if name not in given),
            types=self._types,
            constants=self._constants,
            nodes=(*self._nodes, *body.nodes),
        )
        inputs, takes = tuple(name for name, _ in pairs), tuple(own for _, own in pairs)
        return replace(loop, body=made, inputs=inputs, takes=takes)
