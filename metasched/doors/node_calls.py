"""Node types of networks, called as functions of values; expressions of any operands.

A door makes its graph by these: so what it can say is what a model's file can, and each node is a program as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, GraphValue, NodeOrigin
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.registry import CALLED_OPSET, node_types
from metasched.graph.site import NodeSite, dtype_of, names
from metasched.graph.text import at, broadcast, cast, indices, number, read
from metasched.graph.value_type import ValueType


class NodeCalls:
    """Makes nodes of a graph.

    Attributes:
        builder: the graph that is made.
        place: gives what new nodes are named after, such as a line of the source that is traced.

    """

    def __init__(self, builder: GraphBuilder, place: Callable[[], str]) -> None:
        self.builder = builder
        self.place = place

    def site(
        self,
        op: str,
        inputs: Sequence[GraphValue | None] = (),
        attributes: Mapping[str, Any] | None = None,
        outputs: int = 1,
    ) -> NodeSite:
        """A node as the functions of `node_types/` see it."""
        origin = NodeOrigin(self.place(), op, op.lower())
        return NodeSite(origin, CALLED_OPSET, tuple(inputs), attributes or {}, (True,) * outputs, self.builder)

    def call_outputs(
        self, op: str, *inputs: GraphValue | None, outputs: int, **attributes: Any
    ) -> tuple[GraphValue | None, ...]:
        """The outputs of a node of a type. Raises Unsupported."""
        return node_types()[op].run(self.site(op, inputs, attributes, outputs))

    def call(self, op: str, *inputs: GraphValue | None, **attributes: Any) -> GraphValue:
        """The first output of a node of a type. Raises Unsupported."""
        made = self.call_outputs(op, *inputs, outputs=1, **attributes)[0]
        assert made is not None, op
        return made

    def expression(
        self,
        op: str,
        text: str,
        operands: Sequence[GraphValue],
        computed: Sequence[DType],
        result: DType,
        *,
        divides: bool = False,
    ) -> GraphValue:
        """An expression of operands that are broadcast, `{0}`, `{1}`, ... in its text, as one node.

        Args:
            op: what the node is called.
            text: the expression.
            operands: what it is of.
            computed: the type in which it takes each of them.
            result: its type.
            divides: whether a literal zero among its operands could be a divisor, which the language refuses.

        """
        site = self.site(op, operands)
        shape = broadcast(*(operand.shape for operand in operands))
        over = indices(len(shape))
        given, parts = {}, []
        for letter, operand, wanted in zip(names(len(operands)), operands, computed, strict=True):
            literal = _literal(operand, wanted, divides=divides)
            if literal is None:
                given[letter] = operand
                literal = cast(read(letter, operand.shape, over, shape), operand.type.dtype, wanted)
            parts.append(literal)
        return site.single([f"{at('Y', over)} = {text.format(*parts)}"], ValueType(result, shape), **given)

    def cast(self, operand: GraphValue, dtype: DType) -> GraphValue:
        """An operand in another type."""
        return self.site("Cast").cast(operand, dtype)

    def select(self, holds: GraphValue, then: GraphValue, otherwise: GraphValue) -> GraphValue:
        """Elements of one value where a condition holds, and of another of its type elsewhere."""
        wanted, values = then.type.dtype, [holds, then, otherwise]
        return self.expression("Where", "({1} if {0} else {2})", values, [DType.BOOL, wanted, wanted], wanted)

    def view(self, operand: GraphValue, shape: Sequence[int]) -> GraphValue:
        """An operand's elements in another shape."""
        return self.site("Reshape").view(operand, tuple(shape))

    def constant(self, name: str, array: Array) -> GraphValue:
        """A value that is known. Raises Unsupported for an element type that the language lacks."""
        dtype = dtype_of(array)
        made = np.ascontiguousarray(array, dtype.numpy).reshape(array.shape)
        return self.builder.constant(name, made, ValueType(dtype, made.shape))

    def integers(self, name: str, values: Sequence[int]) -> GraphValue:
        """Numbers that decide shapes, as an input of a node type."""
        return self.constant(name, np.array(values, np.int64))


def _literal(operand: GraphValue, dtype: DType, *, divides: bool) -> str | None:
    """A constant of one element as a literal of a type; None where there is none."""
    if operand.constant is None or operand.type.size != 1:
        return None
    value = operand.constant.reshape(-1)[0]
    if dtype is not operand.type.dtype:
        value = value.astype(dtype.numpy)
    if divides and not value:
        return None
    return number(value.item(), dtype)


def require_known(value: Array | None, what: str) -> Array:
    """An array that decides what is computed. Raises Unsupported where it is computed from data."""
    if value is None:
        raise Unsupported(f"{what} is computed from data, and decides what is computed")
    return value
