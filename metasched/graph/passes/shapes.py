"""Nodes go over their data in the shape that it was computed in, where a view of it would cost something.

A view computes nothing by itself, and costs something in two cases:

- What is elementwise behind a view that puts dimensions together would be computed with what is before the view by
  quotients and remainders: an activation behind a transposed convolution, whose rows are steps and phases. Where others
  read that, too, it is in memory, and read from there.
- A view that puts channels and places together keeps the one in front of it from having its channels innermost, unless
  it is turned back for the view: a norm of groups of channels. Where others read the view, too, it is turned for them.

There, the node's program is written over the shape in front of the view, and a view of its result has the shape that it
had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, Graph, ShapeView
from metasched.graph.layouts.following import last_through_view
from metasched.graph.layouts.preferences import Last
from metasched.graph.layouts.regions import Site, Sites, wanted_dimensions
from metasched.graph.layouts.reshaping import has_quotients, is_read_by_quotients, reshape_stages
from metasched.graph.layouts.viewed_nodes import ViewedNodes
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.value_type import ValueType
from metasched.ir.source import Reduce
from metasched.support.data_classes import dataclass


@graph_pass(after=("repeats",))
def shapes(graph: Graph, context: PassContext) -> Graph:
    """Nodes go over their data in the shape in front of a view, where the view would cost something."""
    if not any(isinstance(node, ShapeView) for node in graph.nodes):
        return graph
    return _Reshaping(graph, wanted_dimensions(Sites.from_graph(graph)), context).run()


@dataclass
class _Reshaping:
    graph: Graph
    wanted: Mapping[Site, Last]
    context: PassContext
    # By the value that a view makes: what is in front of all views up to it.
    fronts: dict[str, str] = field(default_factory=dict)

    def run(self) -> Graph:
        graph = self.graph
        self.made = ViewedNodes(graph)
        self.types = self.made.types
        self.computed = {name for node in graph.computes for name in node.outputs}
        self.summed = _reduction_operands(graph)
        self.readers = Counter(name for node in graph.nodes for name in dict.fromkeys(node.inputs))
        for node in graph.nodes:
            if isinstance(node, Compute):
                self._compute(node)
            else:
                self.made.nodes.append(node)
            if isinstance(node, ShapeView):
                self.fronts[node.output] = self.fronts.get(node.input, node.input)
        return self.made.result()

    def _compute(self, node: Compute) -> None:
        form = stages_of(node.program)
        for name in dict.fromkeys(node.inputs):
            front = self.fronts.get(name, name)
            if form is None or front not in self.computed:
                continue
            if self.types[front] == self.types[name]:
                # Views that undo each other.
                node = replace(node, inputs=tuple(front if n == name else n for n in node.inputs))
            elif self._costs(form, front, name):
                buffer = form.inputs[node.inputs.index(name)]
                made = reshape_stages(form, buffer, self.types[front].shape)
                if made is not None and (_reduces(form) or not _has_quotients(made)):
                    self.context.remark(f"`{node.name}` goes over {self.types[front]}, not {self.types[name]}")
                    self._reshape_node(node, made)
                    return
        self.made.nodes.append(node)

    def _costs(self, form: Stages, front: str, name: str) -> bool:
        """Whether a view would cost something between a value and a node that reads it."""
        given, viewed = self.types[front].shape, self.types[name].shape
        if not is_read_by_quotients(viewed, given):
            return False
        if not _reduces(form):
            return name not in self.summed
        last = self.wanted.get(front, ())
        return bool(last) and self.readers[name] == 1 and last_through_view(last, given, viewed) is None

    def _reshape_node(self, node: Compute, form: Stages) -> None:
        given = zip(node.inputs, form.inputs, strict=True)
        inputs = [self._view_value(node, name, form.types[buffer]) for name, buffer in given]
        for name, own in self.made.add(node, form, inputs).items():
            self.computed.add(own)
            self.fronts[name] = own

    def _view_value(self, node: Compute, name: str, type_: ValueType) -> str:
        """A value in another shape."""
        front = self.fronts.get(name, name)
        if self.types[front] == type_ != self.types[name]:
            return front
        own = self.made.view(node, name, type_)
        if own != name:
            self.fronts[own] = front
        return own


def _reduces(form: Stages) -> bool:
    return any(isinstance(stage.value, Reduce) for stage in form.stages)


def _has_quotients(form: Stages) -> bool:
    return any(has_quotients(e) for stage in form.stages for read in reads(stage.value) for e in read.indices)


def _reduction_operands(graph: Graph) -> frozenset[str]:
    """Values that results of the network, or nodes which are not elementwise, read as they are or in another shape."""
    found = {name for _, name in graph.outputs}
    for node in graph.nodes:
        if isinstance(node, Compute):
            form = stages_of(node.program)
            if form is None or _reduces(form):
                found.update(node.inputs)
    views = [node for node in graph.nodes if isinstance(node, ShapeView)]
    for view in reversed(views):
        if view.output in found:
            found.add(view.input)
    for view in views:
        if view.input in found:
            found.add(view.output)
    return frozenset(found)
