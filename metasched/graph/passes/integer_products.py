"""Products of quantised numbers are products of bytes, with totals of 32 bits.

ONNX's QDQ form computes `dequantize -> convolution -> quantize` in f32. Here what is dequantised only to be multiplied
stays bytes: totals are exact, zero points are taken from them by sums of weights, and scales multiply them.
`QLinearConv`, `MatMulInteger` and the like, imported with zero points taken from their operands, become the same. So
results differ from the model's by rounding of f32 alone: by one step of a scale at most, where that crosses a tie.

It runs before constants are folded, while weights are still bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import substituted
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView, ValueType
from metasched.graph.passes.dead_code import without_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.products import literal
from metasched.graph.precision.products_of_bytes import GraphValues, with_products_of_bytes
from metasched.graph.precision.quantised import Quantised, quantised_form
from metasched.ir.source import Apply, Name, Read, SourceExpr


@graph_pass(after=("dead_code",))
def integer_products(graph: Graph, _: PassContext) -> Graph:
    """Products of quantised numbers are products of bytes, with totals of 32 bits."""
    return without_dead_code(_Integers(graph).graph())


class _Integers:
    """A graph on its way: `_forms` says which values are quantised numbers, `_makers` what computes a value."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = dict(graph.types)
        self._constants = dict(graph.constants)
        self._nodes: list[Node] = []
        self._makers = {name: node for node in graph.nodes for name in node.outputs}
        self._forms: dict[str, Quantised | None] = {}
        self._values = GraphValues(self._quantised, self._types.__getitem__, self._constants.__contains__)

    def graph(self) -> Graph:
        for node in self._graph.nodes:
            # What it needs of others is put before it.
            self._nodes.append(self._rewritten(node))
        return replace(self._graph, nodes=tuple(self._nodes), types=self._types, constants=self._constants)

    def _rewritten(self, node: Node) -> Node:
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if not isinstance(node, Compute) or stages is None:
            return node
        made = with_products_of_bytes(stages, _inputs(stages, node), self._values)
        if made is None:
            return node
        return replace(node, program=program_of(made.stages, node.program.name), inputs=made.inputs)

    # --- quantised values

    def _quantised(self, name: str) -> Quantised | None:
        """What bytes a value is of, None where it is of none. Bytes that no node computes so far are computed now."""
        if name not in self._forms:
            self._forms[name] = self._found(name)
        return self._forms[name]

    def _found(self, name: str) -> Quantised | None:
        node = self._makers.get(name)
        if isinstance(node, ShapeView):
            return self._viewed(node)
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if not isinstance(node, Compute) or stages is None:
            return None
        found = quantised_form(stages, _inputs(stages, node))
        return self._moved(node, stages) if found is None else self._centred(found)

    def _viewed(self, node: ShapeView) -> Quantised | None:
        found = self._quantised(node.input)
        if found is None or found.varies:
            return None
        type_ = replace(self._types[node.output], dtype=self._types[found.value].dtype)
        if found.value in self._constants:
            value = self._constant(found.value, self._constants[found.value].reshape(type_.shape), type_.dtype)
        else:
            value = self._typed(node.output, type_)
            self._nodes.append(replace(node, input=found.value, output=value))
        axes = tuple(f"i{n}" for n in range(type_.rank))
        return replace(found, value=value, axes=axes)

    def _moved(self, node: Compute, stages: Stages) -> Quantised | None:
        """What a program moves, such as a transposition: the bytes are moved, too."""
        if len(stages.stages) != 1 or len(stages.inputs) != 1 or not isinstance(stages.stages[0].value, Read):
            return None
        found = self._quantised(node.inputs[0])
        if found is None:
            return None
        (stage,), dtype = stages.stages, self._types[found.value].dtype
        value = self._typed(node.outputs[0], replace(self._types[node.outputs[0]], dtype=dtype))
        types = {name: replace(type_, dtype=dtype) for name, type_ in stages.types.items()}
        consts = frozenset(stages.inputs if found.value in self._constants else ())
        program = program_of(replace(stages, types=types, consts=consts), node.program.name)
        self._nodes.append(replace(node, program=program, inputs=(found.value,), outputs=(value,)))
        assert isinstance(stage.value, Read)
        places = dict(zip(found.axes, stage.value.indices, strict=True))
        zero, scale = (None if part is None else substituted(part, places) for part in (found.zero, found.scale))
        return replace(found, value=value, axes=tuple(axis.name for axis in stage.axes), zero=zero, scale=scale)

    def _centred(self, found: Quantised) -> Quantised:
        """Weights without their zero points, where signed bytes hold them: no sums of the other factor are needed."""
        bytes_ = self._constants.get(found.value)
        if bytes_ is None or found.zero is None:
            return found
        zero = self._known(found.zero, found)
        if zero is None:
            return found
        centred = bytes_.astype(np.int32) - zero
        limits = np.iinfo(np.int8)
        if centred.min(initial=0) < limits.min or centred.max(initial=0) > limits.max:
            return found
        return replace(found, value=self._constant(found.value, centred.astype(np.int8), DType.I8), zero=None)

    def _known(self, zero: SourceExpr, found: Quantised) -> Array | None:
        """Zero points that are known, in a shape that broadcasts to the bytes."""
        number = literal(zero)
        if number is not None:
            return np.array(number, np.int32)
        match zero:
            case Apply("i32", (Read(buffer, indices),)) if found.given[buffer] in self._constants:
                array = self._constants[found.given[buffer]]
            case _:
                return None
        shape = [1] * len(found.axes)
        for index, extent in zip(indices, array.shape, strict=True):
            if isinstance(index, Name) and index.name in found.axes:
                shape[found.axes.index(index.name)] = extent
            elif extent != 1:
                return None
        # Index variables in an order of their own would need a transposition.
        order = [found.axes.index(i.name) for i in indices if isinstance(i, Name)]
        return array.astype(np.int32).reshape(shape) if order == sorted(order) else None

    # --- new values

    def _typed(self, like: str, type_: ValueType) -> str:
        name, number = f"{like}.{type_.dtype}", 1
        while name in self._types:
            name, number = f"{like}.{type_.dtype}.{number}", number + 1
        self._types[name] = type_
        return name

    def _constant(self, like: str, array: Array, dtype: DType) -> str:
        name = self._typed(like, ValueType(dtype, array.shape))
        self._constants[name] = np.ascontiguousarray(array)
        return name


def _inputs(stages: Stages, node: Compute) -> dict[str, str]:
    """The values that a program's inputs are, by the inputs' names."""
    return dict(zip(stages.inputs, node.inputs, strict=True))
