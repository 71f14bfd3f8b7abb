"""What products read many times is kept in f32 between kernels, where the model says f16.

No instruction multiplies f16 and sums in f32, so each element is converted wherever it is read: once a panel of the
other factor. The value that is written is rounded to f16 as the model says, and is then a number of f32, so results are
the same. Weights stay in f16: they are most of the memory, and a vector of them is converted for several rows at once.

What is joined lies where it is joined (`parts`), so it is in f32 as the result is; a result of which a part has to stay
in f16, as an input of the network, stays too: a kernel would only copy it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import prod

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import rewrite_expression
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Compute, Graph, Node, ShapeView
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.narrowing import FloatFlow
from metasched.graph.precision.products import cast, moves, product_sums
from metasched.ir.source import Apply, IfElse, Read, Reduce, SourceExpr, SourceNode, Stage

_NARROW, _WIDE = DType.F16, DType.F32
# How often an element is read that is worth twice the memory: as many are a vector's results.
_FEWEST_USES = 16


@graph_pass(after=("bf16",))
def wide_factors(graph: Graph, _: PassContext) -> Graph:
    """Values of f16 that products read many times are kept in f32 between kernels."""
    return _Widening(graph).graph()


class _Widening:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._forms = {id(node): form for node in graph.computes if (form := stages_of(node.program)) is not None}
        self._roots = self._view_roots()
        self._wide = self._wide_roots()

    def _view_roots(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in self._graph.nodes:
            if isinstance(node, ShapeView):
                found[node.output] = found.get(node.input, node.input)
        return found

    def _root(self, name: str) -> str:
        """The value that a view is of."""
        return self._roots.get(name, name)

    def _wide_roots(self) -> set[str]:
        """The values that become f32, by their roots, and with each of them what it is joined from."""
        joins = list(self._joins())
        fixed = self._fixed_roots()
        for parts, whole in joins:
            if not fixed.isdisjoint(parts):
                fixed.add(whole)
        wide = {self._root(name) for name in self._values_read_often()} - fixed
        for parts, whole in reversed(joins):
            if whole in wide:
                wide |= parts
        return wide

    def _joins(self) -> Iterator[tuple[set[str], str]]:
        """The roots of what nodes join and do nothing else with, and those of the results, in order."""
        for node, form in self._nodes_with_forms():
            given, joined = node.input_values(form.inputs), FloatFlow(form).joined_inputs
            if joined:
                yield {self._root(given[name]) for name in joined}, self._root(node.outputs[0])

    def _values_read_often(self) -> Iterator[str]:
        for node, form in self._nodes_with_forms():
            given = node.input_values(form.inputs)
            yield from (given[name] for name in _inputs_read_often(form))

    def _fixed_roots(self) -> set[str]:
        """The roots of values that stay as they are: given, returned, or of nodes that are no programs of f16."""
        graph = self._graph
        fixed = {*graph.inputs, *graph.constants, *graph.parts, *(part.of for part in graph.parts.values())}
        fixed.update(name for _, name in graph.outputs)
        for node in graph.nodes:
            form = self._forms.get(id(node))
            if form is not None:
                made = zip(form.outputs, node.outputs, strict=True)
                fixed.update(value for own, value in made if not _may_widen(form, own))
            elif not isinstance(node, ShapeView):
                fixed.update((*node.inputs, *node.outputs))
        return {self._root(name) for name in fixed}

    def _nodes_with_forms(self) -> Iterator[tuple[Compute, Stages]]:
        return ((node, self._forms[id(node)]) for node in self._graph.computes if id(node) in self._forms)

    def graph(self) -> Graph:
        if not self._wide:
            return self._graph
        types = {
            name: replace(type_, dtype=_WIDE) if self._root(name) in self._wide else type_
            for name, type_ in self._graph.types.items()
        }
        return replace(self._graph, nodes=tuple(map(self._rewrite_node, self._graph.nodes)), types=types)

    def _rewrite_node(self, node: Node) -> Node:
        form = self._forms.get(id(node))
        if not isinstance(node, Compute) or form is None:
            return node
        values = {**node.input_values(form.inputs), **dict(zip(form.outputs, node.outputs, strict=True))}
        wide = {own for own, value in values.items() if self._root(value) in self._wide}
        return replace(node, program=program_of(_widen(form, wide), node.program.name)) if wide else node


def _inputs_read_often(form: Stages) -> Iterator[str]:
    """The inputs of f16 whose elements products read many times."""
    for product in product_sums(form):
        terms = form.iterations(product.stage)
        for read in product.operands:
            type_ = form.types[read.buffer]
            if type_.dtype is _NARROW and read.buffer in form.inputs and terms >= _FEWEST_USES * prod(type_.shape):
                yield read.buffer


def _may_widen(form: Stages, output: str) -> bool:
    """Whether an output of f16 is computed element by element, and not added up in f16."""
    stage = form.by_buffer[output]
    return (
        form.types[output].dtype is _NARROW and len(tuple(stage.targets)) == 1 and not isinstance(stage.value, Reduce)
    )


def _widen(form: Stages, wide: Collection[str]) -> Stages:
    """Stages with some inputs and outputs of f32, which hold numbers of f16."""
    types = {name: replace(t, dtype=_WIDE) if name in wide else t for name, t in form.types.items()}
    return replace(form, types=types, stages=tuple(_widen_stage(stage, wide) for stage in form.stages))


def _widen_stage(stage: Stage, wide: Collection[str]) -> Stage:
    def change(node: SourceNode) -> SourceNode:
        if isinstance(node, Read) and node.buffer in wide:
            return cast(node, _NARROW)
        match node:
            case Apply(func=func, args=(Apply(func=inner, args=(Read(buffer=buffer) as read,)),)):
                if (func, inner) == (str(_WIDE), str(_NARROW)) and buffer in wide:
                    return read
        return node

    value = rewrite_expression(stage.value, change)
    if stage.buffer not in wide:
        return replace(stage, value=value)
    # Where all that is done is to choose an element, the one chosen is all that may have to be converted.
    widen = _choose_in_wide if moves(stage.value) else _in_wide
    return replace(stage, value=widen(value, wide))


def _choose_in_wide(value: SourceExpr, wide: Collection[str]) -> SourceExpr:
    if isinstance(value, IfElse):
        then, otherwise = (_choose_in_wide(end, wide) for end in (value.then, value.otherwise))
        return replace(value, then=then, otherwise=otherwise)
    return _in_wide(value, wide)


def _in_wide(value: SourceExpr, wide: Collection[str]) -> SourceExpr:
    """A value of f16 in f32: an element that is f32 already as it is."""
    match value:
        case Apply(func=func, args=(Read(buffer=buffer) as read,)) if func == str(_NARROW) and buffer in wide:
            return read
        case Apply(func=func) if func == str(_NARROW):
            return cast(value, _WIDE)
    return cast(cast(value, _NARROW), _WIDE)
