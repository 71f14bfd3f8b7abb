"""Products with values that are repeated along a part of a dimension go over that part by an index of its own.

Attention whose queries share keys and values has them repeated for each query of a group: `[groups, 1, ...]` becomes
`[groups, queries, ...]`, and that is seen as `[heads, ...]`. Read through as it is, the repeated value would be read at
a quotient, `K[h // queries]`, so that it would be written out. Where all goes over groups and queries instead, it is
read where it lies, and the queries of a group are as many more rows of one product.

What reads the results of such products goes over the same parts, as far as no view puts the dimension together with
others; there, a view of the result has the shape that it had.
"""

from __future__ import annotations

from dataclasses import field

from metasched.graph.fusion.canonical import simplify_stages
from metasched.graph.fusion.expressions import names_in, reads
from metasched.graph.fusion.kinds import Kind, kind_of
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.fusion.views import align_dimensions
from metasched.graph.ir import Compute, Graph, ShapeView
from metasched.graph.layouts.splitting import Split, SplitStages, split_dimension
from metasched.graph.layouts.viewed_nodes import ViewedNodes
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.passes.movement import is_movement
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@graph_pass(after=("factors",))
def repeats(graph: Graph, context: PassContext) -> Graph:
    """Products with repeated values go over the part of a dimension along which they are repeated."""
    made = _Plan(graph).make()
    return _rewrite(graph, made, context) if made else graph


@dataclass
class _Plan:
    graph: Graph
    readers: dict[str, list[int]] = field(default_factory=dict)
    # By the number of a node: what it computes over the parts.
    made: dict[int, Stages] = field(default_factory=dict)

    def make(self) -> dict[int, Stages]:
        for number, node in enumerate(self.graph.nodes):
            for name in dict.fromkeys(node.inputs):
                self.readers.setdefault(name, []).append(number)
        for node in self.graph.computes:
            if is_movement(node) and (repeated := repeated_dimensions(node)):
                self._start(node.outputs[0], node.outputs[0], repeated)
        return self.made

    def _start(self, front: str, name: str, repeated: set[int]) -> None:
        """Follow all views of a value that is repeated along some dimensions."""
        for view in self._views(name):
            split = _joined(self.graph.types[front], self.graph.types[view.output], repeated)
            if split is None:
                self._start(front, view.output, repeated)
            elif self._reaches_product(view.output, split):
                self._follow(view.output, split)

    def _views(self, name: str) -> list[ShapeView]:
        return [node for n in self.readers.get(name, ()) if isinstance(node := self.graph.nodes[n], ShapeView)]

    def _reaches_product(self, name: str, split: Split) -> bool:
        """Whether a value is read by a product over the parts, through what only moves it."""
        for view in self._views(name):
            kept = self._behind_view(view, split)
            if kept is not None and self._reaches_product(view.output, kept):
                return True
        for number in self.readers.get(name, ()):
            node = self.graph.nodes[number]
            made = self._split_reader(number, name, split)
            if made is None or not isinstance(node, Compute):
                continue
            if kind_of(made.stages) is Kind.ANCHOR:
                return True
            if is_movement(node) and any(self._reaches_product(*result) for result in _results(node, made)):
                return True
        return False

    def _follow(self, name: str, split: Split) -> None:
        """Have what reads a value go over the parts, and what reads the results of that, too."""
        for view in self._views(name):
            kept = self._behind_view(view, split)
            if kept is not None:
                self._follow(view.output, kept)
        for number in self.readers.get(name, ()):
            node = self.graph.nodes[number]
            made = None if number in self.made else self._split_reader(number, name, split)
            if made is not None and isinstance(node, Compute):
                self.made[number] = made.stages
                for result in _results(node, made):
                    self._follow(*result)

    def _split_reader(self, number: int, name: str, split: Split) -> SplitStages | None:
        node = self.graph.nodes[number]
        form = stages_of(node.program) if isinstance(node, Compute) else None
        return None if form is None else split_dimension(form, form.inputs[node.inputs.index(name)], split)

    def _behind_view(self, view: ShapeView, split: Split) -> Split | None:
        """A dimension behind a view; None where the view joins or divides it."""
        given, viewed = self.graph.types[view.input].shape, self.graph.types[view.output].shape
        for own, other in align_dimensions(given, viewed):
            if split.dim in own:
                long = [d for d in other if viewed[d] > 1]
                return Split(long[0], split.parts) if [viewed[d] for d in long] == [split.extent] else None
        return None


def _results(node: Compute, made: SplitStages) -> list[tuple[str, Split]]:
    """The results of a node that have the parts, and where."""
    named = zip(node.outputs, made.stages.outputs, strict=True)
    return [(name, made.splits[buffer]) for name, buffer in named if buffer in made.splits]


def repeated_dimensions(node: Compute) -> set[int]:
    """The dimensions of what a node moves along which all elements are equal."""
    form = stages_of(node.program)
    assert form is not None
    (stage,) = simplify_stages(form).stages
    used = {name for read in reads(stage.value) for index in read.indices for name in names_in(index)}
    shape = form.types[stage.buffer].shape
    return {dim for dim, axis in enumerate(stage.axes) if shape[dim] > 1 and axis.name not in used}


def _joined(front: ValueType, viewed: ValueType, repeated: set[int]) -> Split | None:
    """The dimension of a view that dimensions are together in, of which a value is repeated along some."""
    for own, other in align_dimensions(front.shape, viewed.shape):
        parts = [d for d in own if front.shape[d] > 1]
        long = [d for d in other if viewed.shape[d] > 1]
        if len(long) == 1 and repeated.intersection(parts) and not repeated.issuperset(parts):
            return Split(long[0], tuple(front.shape[d] for d in parts))
    return None


def _rewrite(graph: Graph, plan: dict[int, Stages], context: PassContext) -> Graph:
    """A graph with some nodes computing other stages, and views where these have other shapes."""
    made = ViewedNodes(graph)
    chains: dict[str, tuple[str, ...]] = {}  # by the value that a view makes: those that it is a view of
    for number, node in enumerate(graph.nodes):
        if isinstance(node, ShapeView):
            chains[node.output] = (*chains.get(node.input, ()), node.input)
        if not isinstance(node, Compute) or number not in plan:
            made.nodes.append(node)
            continue
        form = plan[number]
        inputs = []
        for name, buffer in zip(node.inputs, form.inputs, strict=True):
            type_ = form.types[buffer]
            same = [other for other in (name, *chains.get(name, ())) if made.types[other] == type_]
            inputs.append(same[0] if same else made.view(node, name, type_))
        for name, own in made.add(node, form, inputs).items():
            chains[name] = (own,)
        context.remark(f"`{node.name}` goes over parts of a dimension along which what it reads is repeated")
    return made.result()
