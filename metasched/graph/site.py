"""A node of a model as the functions of `node_types/` see it: typed inputs, attributes, and ways to make programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, TypeVar

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, GraphValue, NodeOrigin
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.text import at, broadcast, indices, operand_text, read
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

_LETTERS = "ABCDEFGHJKLMNOPQRSTUVWZ"


def names(count: int) -> tuple[str, ...]:
    """Names of so many inputs of a program."""
    return tuple(_LETTERS[:count]) if count <= len(_LETTERS) else tuple(f"A{n}" for n in range(count))


# Imports the nodes of a graph that reads some values as its inputs, under a name for this time. Gives its outputs.
# Raises BodyRefused where a node of it is refused.
RunBody: TypeAlias = Callable[[Sequence[GraphValue], str], list[GraphValue]]
Made = TypeVar("Made")


class SiteGraphs:
    """What imports graphs that a node has. Nodes of most origins have none."""

    def body(self, graph: Any, fixed: Mapping[str, GraphValue]) -> RunBody:
        """What imports a graph for given inputs, any number of times; `fixed` are inputs that are always the same."""
        raise Unsupported("it runs a graph, which nodes of this origin have not")

    def branch(self, graph: Any) -> RunBody:
        """What imports a graph without inputs: all of it each time, as nothing says that it runs."""
        raise Unsupported("it runs a graph, which nodes of this origin have not")

    def attempt(self, run: Callable[[], Made]) -> Made | None:
        """What something makes; None where it is refused, of which nothing is said then."""
        raise Unsupported("it runs a graph, which nodes of this origin have not")


@dataclass(frozen=True)
class NodeSite:
    """A node whose inputs are known.

    Attributes:
        origin: its name, type and first output.
        opset: the version of the operator set it is from.
        inputs: its inputs; None for those left out.
        attributes: by name, with tensors as arrays.
        wanted: for each output, whether it has a name, by which something reads it.
        builder: the graph that is made.
        graphs: what imports graphs among the attributes.

    """

    origin: NodeOrigin
    opset: int
    inputs: tuple[GraphValue | None, ...]
    attributes: Mapping[str, Any]
    wanted: tuple[bool, ...]
    builder: GraphBuilder = field(repr=False)
    graphs: SiteGraphs = field(default_factory=SiteGraphs, repr=False)

    @property
    def op(self) -> str:
        return self.origin.op

    @property
    def operands(self) -> tuple[GraphValue, ...]:
        """All inputs. Raises Unsupported where one was left out."""
        return tuple(self.operand(n) for n in range(len(self.inputs)))

    def operand(self, number: int) -> GraphValue:
        """A tensor by its position among the inputs. Raises Unsupported for a sequence, and where it was left out."""
        found = self.optional(number)
        if found is None:
            raise Unsupported(f"it has no input {number}")
        return found

    def optional(self, number: int) -> GraphValue | None:
        """A tensor by its position among the inputs; None where it was left out. Raises Unsupported for a sequence."""
        found = self.inputs[number] if number < len(self.inputs) else None
        if found is not None and found.elements is not None:
            raise Unsupported(f"its input `{found.name}` is a sequence, and not a tensor")
        return found

    def value(self, number: int) -> GraphValue:
        """An input by its position, a tensor or a sequence. Raises Unsupported where it was left out."""
        found = self.inputs[number] if number < len(self.inputs) else None
        if found is None:
            raise Unsupported(f"it has no input {number}")
        return found

    def wants(self, number: int) -> bool:
        """Whether an output is used."""
        return number < len(self.wanted) and self.wanted[number]

    # --- what has to be known

    def require_known(self, number: int, what: str) -> Array:
        """The elements of an input that decides shapes. Raises Unsupported where they are not known at load."""
        operand = self.operand(number)
        if operand.constant is None:
            raise Unsupported(
                f"its {what}, `{operand.name}`, is computed from data, and decides what is computed",
                tuple(sorted(operand.depends)),
            )
        return operand.constant

    def integers(self, number: int, what: str) -> tuple[int, ...]:
        """The numbers in an input that decides shapes."""
        return tuple(int(n) for n in self.require_known(number, what).reshape(-1))

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute; texts are `str`."""
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def require_attribute(self, name: str) -> Any:
        """An attribute that has no default. Raises Unsupported where it is missing."""
        value = self.attribute(name)
        if value is None:
            raise Unsupported(f"the attribute `{name}` is missing")
        return value

    def flag(self, name: str, default: int = 0) -> bool:
        """An attribute that is 0 or 1."""
        return bool(self.attribute(name, default))

    def require_one_of(self, name: str, default: str, known: Sequence[str]) -> str:
        """An attribute that is one of some words. Raises Unsupported for another."""
        value: str = self.attribute(name, default)
        if value not in known:
            raise Unsupported(f'`{name}` is "{value}", and {", ".join(known)} are known')
        return value

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from the end or the beginning, as one from the beginning."""
        if not -rank <= value < max(rank, 1):
            raise Unsupported(f"there is no axis {value} of {counted(rank, 'dimension')}")
        return value % rank if rank else 0

    def axes(self, values: Sequence[int], rank: int) -> tuple[int, ...]:
        """Axes as `axis` gives them; each may be named once."""
        found = tuple(self.axis(int(value), rank) for value in values)
        if len(set(found)) != len(found):
            raise Unsupported(f"its axes {tuple(values)} name one twice")
        return found

    # --- what it computes

    def program(
        self, stages: Sequence[str], outputs: Mapping[str, ValueType], **inputs: GraphValue | None
    ) -> tuple[GraphValue, ...]:
        """The outputs of a program; see `GraphBuilder.program`."""
        given = {name: operand for name, operand in inputs.items() if operand is not None}
        return self.builder.program(self.origin, stages, outputs, given)

    def single(self, stages: Sequence[str], type_: ValueType, **inputs: GraphValue | None) -> GraphValue:
        """The output `Y` of a program that has no other."""
        (made,) = self.program(stages, {"Y": type_}, **inputs)
        return made

    def elementwise(self, expression: str, *operands: GraphValue, dtype: DType | None = None) -> GraphValue:
        """A program of one stage: an expression of operands that are broadcast, `{0}`, `{1}`, ... in its text.

        `dtype` is the type of the result, by default that of the first operand.
        """
        shape = broadcast(*(operand.shape for operand in operands))
        over = indices(len(shape))
        letters = names(len(operands))
        texts = [operand_text(a, b, over, shape) for a, b in zip(letters, operands, strict=True)]
        type_ = ValueType(dtype or operands[0].type.dtype, shape)
        stage = f"{at('Y', over)} = {expression.format(*texts)}"
        return self.single([stage], type_, **dict(zip(letters, operands, strict=True)))

    def with_arguments(self, expression: str, operands: Sequence[GraphValue], dtype: DType) -> GraphValue:
        """As `elementwise`, and constants are arguments whatever their size: layers that differ in them are equal."""
        shape = broadcast(*(operand.shape for operand in operands))
        over, letters = indices(len(shape)), names(len(operands))
        texts = [read(letter, operand.shape, over, shape) for letter, operand in zip(letters, operands, strict=True)]
        stage = f"{at('Y', over)} = {expression.format(*texts)}"
        return self.single([stage], ValueType(dtype, shape), **dict(zip(letters, operands, strict=True)))

    def cast(self, operand: GraphValue, dtype: DType) -> GraphValue:
        """An operand in another type."""
        if operand.type.dtype is dtype:
            return operand
        return self.elementwise(f"{dtype}({{0}})", operand, dtype=dtype)

    def view(self, operand: GraphValue, shape: Sequence[int]) -> GraphValue:
        """An operand's elements in another shape."""
        return self.builder.view(self.origin, operand, tuple(shape))

    def constant(self, array: Array, dtype: DType | None = None) -> GraphValue:
        """A value that is known."""
        kind = dtype or dtype_of(array)
        made = np.ascontiguousarray(array, kind.numpy).reshape(array.shape)
        return self.builder.constant(self.origin.value, made, ValueType(kind, made.shape))


def dtype_of(array: Array) -> DType:
    """The element type of an array. Raises Unsupported for one that the language lacks."""
    for dtype in DType:
        if dtype.numpy == array.dtype:
            return dtype
    raise Unsupported(f"the language has no element type {array.dtype}")
