"""Products of quantised numbers are products of bytes, with totals of 32 bits.

ONNX's QDQ form computes `dequantize -> convolution -> quantize` in f32. Here what is dequantised only to be multiplied
stays bytes: totals are exact, zero points are taken from them by sums of weights, and scales multiply them.
`QLinearConv`, `MatMulInteger` and the like, imported with zero points taken from their operands, become the same. So
results differ from the model's by rounding of f32 alone: by one step of a scale at most, where that crosses a tie.

Signed activations that weights are multiplied by become unsigned, with a zero point that is 128 more: what quantises
them gives unsigned bytes at once, and what else dequantises them reads those.

It runs before constants are folded, while weights are still bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import reads, substitute_names
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.products import cast, literal, new_name
from metasched.graph.precision.products_of_bytes import GraphValues, with_products_of_bytes
from metasched.graph.precision.quantised import Quantised, quantised_form, quantised_to_signed
from metasched.graph.value_type import ValueType
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, Axis, IntLit, Name, Operation, Read, SourceExpr, Stage

# What makes a signed byte an unsigned one.
_SIGN_OFFSET = 128


@graph_pass(after=("constants_into_loops", "dead_code"))
def integer_products(graph: Graph, _: PassContext) -> Graph:
    """Products of quantised numbers are products of bytes, with totals of 32 bits."""
    return remove_dead_code(_Integers(graph).graph())


class _Integers:
    """A graph on its way: `_forms` says which values are quantised numbers, `_makers` what computes a value."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = dict(graph.types)
        self._constants = dict(graph.constants)
        self._nodes: list[Node] = []
        self._makers = {name: node for node in graph.nodes for name in node.outputs}
        self._forms: dict[str, Quantised | None] = {}
        self._raising: dict[str, Node] = {}  # what makes signed bytes unsigned ones, by the signed ones.
        self._values = GraphValues(
            self._quantised_value, self._unsigned_value, self._types.__getitem__, self._constants.__contains__
        )

    def graph(self) -> Graph:
        for node in self._graph.nodes:
            # What it needs of others is put before it.
            self._nodes.append(self._rewrite_node(node))
        nodes: list[Node] = [self._raising[name] for name in self._graph.inputs if name in self._raising]
        for node in self._nodes:
            nodes.append(self._read_unsigned(node))
            nodes += [self._raising[name] for name in node.outputs if name in self._raising]
        return replace(self._graph, nodes=tuple(nodes), types=self._types, constants=self._constants)

    def _rewrite_node(self, node: Node) -> Node:
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if not isinstance(node, Compute) or stages is None:
            return node
        made = with_products_of_bytes(stages, node.input_values(stages.inputs), self._values)
        if made is None:
            return node
        return replace(node, program=program_of(made.stages, node.program.name), inputs=made.inputs)

    # --- quantised values

    def _quantised_value(self, name: str) -> Quantised | None:
        """The bytes that a value is made of, or None. Bytes that no node computes so far are computed now."""
        if name not in self._forms:
            self._forms[name] = self._find_quantised(name)
        return self._forms[name]

    def _find_quantised(self, name: str) -> Quantised | None:
        node = self._makers.get(name)
        if isinstance(node, ShapeView):
            return self._view_bytes(node)
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if not isinstance(node, Compute) or stages is None:
            return None
        found = quantised_form(stages, node.input_values(stages.inputs))
        return self._move_bytes(node, stages) if found is None else self._centre_weights(found)

    def _view_bytes(self, node: ShapeView) -> Quantised | None:
        found = self._quantised_value(node.input)
        if found is None or found.varies:
            return None
        type_ = replace(self._types[node.output], dtype=self._types[found.value].dtype)
        if found.value in self._constants:
            value = self._add_constant(found.value, self._constants[found.value].reshape(type_.shape), type_.dtype)
        else:
            value = self._add_value(node.output, type_)
            self._add_node(replace(node, input=found.value, output=value))
        axes = tuple(f"i{n}" for n in range(type_.rank))
        return replace(found, value=value, axes=axes)

    def _move_bytes(self, node: Compute, stages: Stages) -> Quantised | None:
        """The bytes of a value that a program moves, such as a transposition, moved in the same way."""
        if len(stages.stages) != 1 or len(stages.inputs) != 1 or not isinstance(stages.stages[0].value, Read):
            return None
        found = self._quantised_value(node.inputs[0])
        if found is None:
            return None
        (stage,), dtype = stages.stages, self._types[found.value].dtype
        value = self._add_value(node.outputs[0], replace(self._types[node.outputs[0]], dtype=dtype))
        types = {name: replace(type_, dtype=dtype) for name, type_ in stages.types.items()}
        consts = frozenset(stages.inputs if found.value in self._constants else ())
        program = program_of(replace(stages, types=types, consts=consts), node.program.name)
        self._add_node(replace(node, program=program, inputs=(found.value,), outputs=(value,)))
        assert isinstance(stage.value, Read)
        places = dict(zip(found.axes, stage.value.indices, strict=True))
        zero, scale = (None if part is None else substitute_names(part, places) for part in (found.zero, found.scale))
        return replace(found, value=value, axes=tuple(axis.name for axis in stage.axes), zero=zero, scale=scale)

    def _add_node(self, node: Node) -> None:
        """Put a node ahead of the one that is rewritten."""
        self._nodes.append(node)
        self._makers |= dict.fromkeys(node.outputs, node)

    def _centre_weights(self, found: Quantised) -> Quantised:
        """Weights without their zero points, where signed bytes hold them: no sums of the other factor are needed.

        Unsigned ones are signed in any case, as instructions multiply an unsigned byte by a signed one.
        """
        bytes_ = self._constants.get(found.value)
        if bytes_ is None or found.zero is None:
            return found
        zero = self._known_zeros(found.zero, found)
        if zero is None:
            return found
        centred = bytes_.astype(np.int32) - zero
        limits = np.iinfo(np.int8)
        if centred.min(initial=0) < limits.min or centred.max(initial=0) > limits.max:
            return self._make_weights_signed(found, bytes_) if bytes_.dtype == np.uint8 else found
        return replace(found, value=self._add_constant(found.value, centred.astype(np.int8), DType.I8), zero=None)

    def _make_weights_signed(self, found: Quantised, bytes_: Array) -> Quantised:
        """Weights of unsigned bytes as signed ones, with zero points that are 128 less."""
        value = self._add_constant(found.value, (bytes_.astype(np.int32) - _SIGN_OFFSET).astype(np.int8), DType.I8)
        match found.zero:
            case Apply("i32", (Read(buffer),)):
                zeros = self._constants[found.given[buffer]].astype(np.int32) - _SIGN_OFFSET
                given = {
                    **found.given,
                    buffer: self._add_constant(found.given[buffer], zeros.astype(np.int8), DType.I8),
                }
                return replace(found, value=value, given=given)
        number = None if found.zero is None else literal(found.zero)
        assert number is not None
        return replace(found, value=value, zero=IntLit(int(number) - _SIGN_OFFSET))

    def _known_zeros(self, zero: SourceExpr, found: Quantised) -> Array | None:
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

    # --- signed bytes as unsigned ones

    def _unsigned_value(self, name: str) -> Quantised | None:
        """The quantised form of a value, made of unsigned bytes where its signed ones are no constant."""
        found = self._quantised_value(name)
        if found is None and self._types[name].dtype is DType.I8:
            found = Quantised(name, tuple(f"i{n}" for n in range(self._types[name].rank)))
        if found is None or self._types[found.value].dtype is not DType.I8 or found.value in self._constants:
            return found
        self._make_unsigned(found.value)
        return self._unsigned_form(found)

    def _make_unsigned(self, signed: str) -> str:
        """Signed bytes as unsigned ones, which a node makes."""
        if signed not in self._raising:
            self._raising[signed] = self._unsigned_maker(signed)
        return self._raising[signed].outputs[0]

    def _unsigned_maker(self, signed: str) -> Node:
        """The node that makes signed bytes unsigned: what quantises them, to unsigned ones at once, if a node does.

        A node that views or moves them does so with unsigned ones.
        """
        maker = self._makers.get(signed)
        if isinstance(maker, ShapeView):
            source = self._make_unsigned(maker.input)
            return replace(maker, input=source, output=self._add_value(signed, self._unsigned_type(signed)))
        if (
            isinstance(maker, Compute)
            and (made := self._quantise_unsigned(maker) or self._move_unsigned(maker)) is not None
        ):
            return made
        type_ = self._types[signed]
        types = {"A": type_, "Y": replace(type_, dtype=DType.U8)}
        axes = tuple(Axis(f"i{n}") for n in range(type_.rank))
        byte = Read("A", tuple(Name(axis.name) for axis in axes))
        value = cast(Operation(BinOp.ADD, cast(byte, DType.I32), IntLit(_SIGN_OFFSET)), DType.U8)
        stages = Stages(types, ("A",), frozenset(), ("Y",), (Stage(None, "Y", axes, value),))
        lifted = self._add_value(signed, types["Y"])
        return Compute(lifted, "Cast", program_of(stages, "unsigned"), (signed,), (lifted,))

    def _unsigned_type(self, name: str) -> ValueType:
        return replace(self._types[name], dtype=DType.U8)

    def _move_unsigned(self, node: Compute) -> Compute | None:
        """A node that moves signed bytes, as one that moves unsigned ones; None for any other node."""
        stages = stages_of(node.program)
        if stages is None or len(stages.stages) != 1 or len(stages.inputs) != 1 or stages.consts:
            return None
        if not isinstance(stages.stages[0].value, Read) or self._types[node.inputs[0]].dtype is not DType.I8:
            return None
        source = self._make_unsigned(node.inputs[0])
        types = {name: replace(type_, dtype=DType.U8) for name, type_ in stages.types.items()}
        program = program_of(replace(stages, types=types), node.program.name)
        value = self._add_value(node.outputs[0], self._unsigned_type(node.outputs[0]))
        return replace(node, program=program, inputs=(source,), outputs=(value,))

    def _quantise_unsigned(self, node: Compute) -> Compute | None:
        """A node that quantises to signed bytes, as one that quantises to unsigned ones; None for any other node."""
        stages = stages_of(node.program)
        if stages is None:
            return None
        (stage, *others), given = stages.stages, node.input_values(stages.inputs)
        found = None if others else quantised_to_signed(stage.value)
        if found is None or (found.zero is not None and given[found.zero.buffer] not in self._constants):
            return None
        zero: SourceExpr | None = IntLit(_SIGN_OFFSET)
        if found.zero is not None:
            raised = self._unsigned_constant(given[found.zero.buffer])
            own = new_name(stages, "Z")
            given[own] = raised
            zero = replace(found.zero, buffer=own) if self._constants[raised].any() else None
        value = found.unsigned_bytes(zero)
        names = tuple(dict.fromkeys(read.buffer for read in reads(value)))
        types = {**stages.types, **{name: self._types[value] for name, value in given.items()}}
        types[stage.buffer] = replace(types[stage.buffer], dtype=DType.U8)
        consts = frozenset(name for name in names if given[name] in self._constants)
        changed = Stages(types, names, consts, stages.outputs, (replace(stage, value=value),))
        made = self._add_value(node.outputs[0], types[stage.buffer])
        inputs = tuple(given[name] for name in names)
        return replace(node, program=program_of(changed, node.program.name), inputs=inputs, outputs=(made,))

    def _unsigned_constant(self, signed: str) -> str:
        """A constant of signed bytes as unsigned ones."""
        return self._add_constant(
            signed, (self._constants[signed].astype(np.int32) + _SIGN_OFFSET).astype(np.uint8), DType.U8
        )

    def _unsigned_form(self, found: Quantised) -> Quantised:
        """Quantised numbers of signed bytes, of the unsigned ones."""
        value = self._raising[found.value].outputs[0]
        match found.zero:
            case None:
                return replace(found, value=value, zero=IntLit(_SIGN_OFFSET))
            case Apply("i32", (Read(buffer),)) if found.given[buffer] in self._constants:
                if self._types[found.given[buffer]].dtype is DType.I8:
                    # A constant again, so that layers with other zero points have the same program.
                    raised = self._unsigned_constant(found.given[buffer])
                    zero = found.zero if self._constants[raised].any() else None
                    return replace(found, value=value, zero=zero, given={**found.given, buffer: raised})
        return replace(found, value=value, zero=Operation(BinOp.ADD, found.zero, IntLit(_SIGN_OFFSET)))

    def _read_unsigned(self, node: Node) -> Node:
        """A node that only dequantises signed bytes, as one that reads the unsigned ones, where there are any."""
        stages = stages_of(node.program) if isinstance(node, Compute) else None
        if not isinstance(node, Compute) or stages is None:
            return node
        form = quantised_form(stages, node.input_values(stages.inputs))
        return (
            node if form is None or form.value not in self._raising else self._dequantise_unsigned(node, stages, form)
        )

    def _dequantise_unsigned(self, node: Compute, stages: Stages, form: Quantised) -> Compute:
        (stage,), form = stages.stages, self._unsigned_form(form)
        byte = new_name(stages, "Q")
        given = {byte: form.value, **form.given}
        value: SourceExpr = cast(Read(byte, tuple(Name(axis.name) for axis in stage.axes)), DType.I32)
        if form.zero is not None:
            value = Operation(BinOp.SUB, value, form.zero)
        if form.scale is not None:
            value = Operation(BinOp.MUL, cast(value, DType.F32), form.scale)
        value = cast(value, stages.types[stage.buffer].dtype)
        given = {read.buffer: given[read.buffer] for read in reads(value)}
        types = {name: self._types[value] for name, value in given.items()}
        types[stage.buffer] = stages.types[stage.buffer]
        consts = frozenset(name for name, value in given.items() if value in self._constants)
        made = Stages(types, tuple(given), consts, stages.outputs, (replace(stage, value=value),))
        return replace(node, program=program_of(made, node.program.name), inputs=tuple(given.values()))

    # --- new values

    def _add_value(self, like: str, type_: ValueType) -> str:
        name, number = f"{like}.{type_.dtype}", 1
        while name in self._types:
            name, number = f"{like}.{type_.dtype}.{number}", number + 1
        self._types[name] = type_
        return name

    def _add_constant(self, like: str, array: Array, dtype: DType) -> str:
        name = self._add_value(like, ValueType(dtype, array.shape))
        self._constants[name] = np.ascontiguousarray(array).reshape(array.shape)  # scalars would become vectors
        return name
