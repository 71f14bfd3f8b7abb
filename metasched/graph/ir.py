"""The graph of a network: values with types and shapes, nodes that compute them, and constants.

A node is a program of the language with bound sizes, or a view, which gives the same elements another shape. So a pass
reads and rewrites programs and knows nothing of ONNX. Nodes come in an order in which they can run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from metasched.dtypes import DType
from metasched.errors import MetaschedError
from metasched.ir.affine import as_int
from metasched.ir.nodes import Buffer
from metasched.ir.program import Program
from metasched.support.cached import cached_property

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ValueType:
    """Element type and shape of a value; a scalar has the shape ()."""

    dtype: DType
    shape: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Compute:
    """A node that runs a program.

    Attributes:
        name: the node of the model that it comes from.
        op: that node's type.
        program: what it computes.
        inputs: values, one for each input of the program, in its order.
        outputs: values, one for each output of the program.

    """

    name: str
    op: str
    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ShapeView:
    """A node whose output has its input's elements, in the same order, in another shape: nothing is computed."""

    name: str
    op: str
    input: str
    output: str

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output,)


Node: TypeAlias = Compute | ShapeView


class GraphError(MetaschedError):
    """A graph that is not well formed. No model makes one: it is a defect of what made the graph."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A network with all sizes bound.

    Attributes:
        name: the model's.
        types: of every value, by name.
        inputs: the values that a call gives, in order.
        outputs: what a call returns: names in the model, and the values that they stand for.
        constants: weights and other values that are known, by name.
        nodes: what computes the other values, in an order in which they can run.

    """

    name: str
    types: Mapping[str, ValueType]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]

    @property
    def computes(self) -> Iterator[Compute]:
        """The nodes that run a program."""
        return (node for node in self.nodes if isinstance(node, Compute))

    @cached_property
    def tasks(self) -> Mapping[str, tuple[Compute, ...]]:
        """Nodes with equal programs, names aside: by the programs' hashes, in the order of their first node."""
        found: dict[str, list[Compute]] = {}
        for node in self.computes:
            found.setdefault(node.program.structural_hash(), []).append(node)
        return {key: tuple(nodes) for key, nodes in found.items()}

    @property
    def weight_bytes(self) -> int:
        """Memory of all constants."""
        return sum(array.nbytes for array in self.constants.values())

    def __str__(self) -> str:
        return print_graph(self)

    def validate(self) -> None:
        """Raise GraphError where this is not well formed: names, order, types and shapes."""
        known = {*self.inputs, *self.constants}
        if len(known) != len(self.inputs) + len(self.constants):
            raise GraphError("an input has the name of another input, or of a constant")
        for name, array in self.constants.items():
            _require(name in self.types, f"the constant `{name}` has no type")
            have = (array.dtype, array.shape)
            want = (self.types[name].dtype.numpy, self.types[name].shape)
            _require(have == want, f"the constant `{name}` is {have}, and its type says {want}")
        for node in self.nodes:
            for name in node.inputs:
                _require(name in known, f"`{node.name}` reads `{name}`, which nothing before it computes")
            for name in node.outputs:
                _require(name not in known, f"`{node.name}` computes `{name}`, which is there already")
                _require(name in self.types, f"`{name}`, of `{node.name}`, has no type")
                known.add(name)
            self._check_types(node)
        for label, name in self.outputs:
            _require(name in known, f"nothing computes the output `{label}` (`{name}`)")

    def _check_types(self, node: Node) -> None:
        if isinstance(node, ShapeView):
            given, made = self.types[node.input], self.types[node.output]
            _require(
                given.dtype is made.dtype and given.size == made.size, f"the view `{node.name}` is of {given} as {made}"
            )
            return
        for what, buffers, names in (
            ("input", node.program.inputs, node.inputs),
            ("output", node.program.outputs, node.outputs),
        ):
            _require(len(buffers) == len(names), f"`{node.name}` has {len(names)} {what}s, its program {len(buffers)}")
            for buffer, name in zip(buffers, names, strict=True):
                declared = type_of(buffer)
                _require(
                    declared == self.types[name],
                    f"the {what} `{name}` of `{node.name}` is {self.types[name]}, and its program says {declared}",
                )


def type_of(buffer: Buffer) -> ValueType:
    """The type of a buffer of a program whose sizes are numbers."""
    shape = tuple(as_int(extent) for extent in buffer.shape)
    assert all(extent is not None for extent in shape), buffer
    return ValueType(buffer.dtype, tuple(extent for extent in shape if extent is not None))


def _require(met: bool, message: str) -> None:
    if not met:
        raise GraphError(message)


# --- as text ---------------------------------------------------------------------------------------------


def print_graph(graph: Graph, *, programs: bool = True) -> str:
    """The text of a graph; `programs`: whether those that its nodes run are printed after it."""
    lines = list(_lines(graph))
    if programs:
        for number, nodes in enumerate(graph.tasks.values()):
            lines += ["", f"# task {number}", str(nodes[0].program).rstrip()]
    return "\n".join(lines) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"network {graph.name}({_typed(graph, graph.inputs)}) -> ({', '.join(label for label, _ in graph.outputs)}):"
    for name in graph.constants:
        yield f"  const {name}: {graph.types[name]}"
    numbers = {id(node): number for number, nodes in enumerate(graph.tasks.values()) for node in nodes}
    for node in graph.nodes:
        yield f"  {_typed(graph, node.outputs)} = {_call(node, numbers)}"
    for label, name in graph.outputs:
        if label != name:
            yield f"  return {label} = {name}"


def _call(node: Node, numbers: dict[int, int]) -> str:
    arguments = ", ".join(node.inputs)
    if isinstance(node, Compute):
        return f"{node.program.name}({arguments})  # task {numbers[id(node)]}, {node.op} `{node.name}`"
    return f"view({arguments})  # {node.op} `{node.name}`"


def _typed(graph: Graph, names: Iterable[str]) -> str:
    return ", ".join(f"{name}: {graph.types[name]}" for name in names)
