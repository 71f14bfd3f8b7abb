"""The node types that are known, found by the files of `metasched.graph.node_types`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

from metasched.graph.builder import GraphValue
from metasched.graph.site import NodeSite
from metasched.support.data_classes import dataclass
from metasched.support.declared_files import Declarations, DeclaredFiles, require_several

Import: TypeAlias = Callable[[NodeSite], tuple[GraphValue | None, ...]]

# What to do with a node that draws random numbers, of which a program has none.
RANDOM_NUMBERS_HINT = (
    "a network gives the same for the same inputs: export the model without sampling, in eval mode, or with its "
    "noise as an input"
)
_RANDOM = frozenset(["Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"])

# Node types that are called by others, or by a door, are read as this operator set means them.
CALLED_OPSET = 22


@dataclass(frozen=True)
class NodeForm:
    """Inputs and attributes of nodes of a type that the package `onnx` does not describe.

    Attributes:
        inputs: how many there are at least and at most.
        attributes: by name, what each is where it is left out; `int`, `float`, `str` or `list` where that is nothing.

    """

    inputs: tuple[int, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Any]:
        """What attributes are that a node leaves out."""
        return {name: value for name, value in self.attributes.items() if not isinstance(value, type)}

    def kind(self, name: str) -> type | None:
        """The type of an attribute's value; None for one that there is not."""
        value = self.attributes.get(name)
        return value if value is None or isinstance(value, type) else type(value)


@dataclass(frozen=True)
class NodeType:
    """How nodes of a type are imported.

    Attributes:
        name: the type, with `domain:` before it where that is not ONNX's own.
        run: gives the node's outputs, in their order; those that nothing uses may be None. Raises Unsupported.
        form: of a type that the package `onnx` does not describe.
        counts: whether `run` gives results the sizes that only a call knows; otherwise they are found in its programs
            (see `counted.rows`).

    """

    name: str
    run: Import
    form: NodeForm | None = None
    counts: bool = False


_DECLARED_TYPES: Declarations[NodeType] = Declarations("node_types")


def node_type(*names: str, form: NodeForm | None = None, counts: bool = False) -> Callable[[Import], Import]:
    """Declare that a function imports nodes of these types, which have a form where `onnx` does not describe them.

    `counts`: whether it sees to sizes that only a call knows.
    """

    def declare(function: Import) -> Import:
        return _DECLARED_TYPES.add(function, *(NodeType(name, function, form, counts) for name in names))

    return declare


def _read_declarations(name: str, module: ModuleType) -> Mapping[str, NodeType]:
    del name
    found = [(one.name, one) for _, one in _DECLARED_TYPES.of_module(module)]
    found += [(op, NodeType(op, run)) for op, run in getattr(module, "TABLE", {}).items()]
    return require_several(module, found, "a node type: a function with `@node_type`, or a `TABLE`")


FILES = DeclaredFiles("metasched.graph.node_types", "node type", _read_declarations)


@cache
def node_types() -> Mapping[str, NodeType]:
    """Every node type that is known, by name. Raises TypeError where two files declare one."""
    return FILES.merge()


def unknown_type_reason(name: str) -> str:
    """Why there is no program for a node type that is not known."""
    if name in _RANDOM:
        return f"it draws random numbers, and {RANDOM_NUMBERS_HINT}"
    return "no program is known for this node type"


def call_node(site: NodeSite, op: str, *inputs: GraphValue | None, **attributes: Any) -> GraphValue:
    """The first output of a node of another type, for a type that is defined by it. Raises Unsupported."""
    origin = replace(site.origin, op=op)
    inner = replace(site, origin=origin, opset=CALLED_OPSET, inputs=inputs, attributes=attributes, wanted=(True,))
    made = node_types()[op].run(inner)[0]
    assert made is not None, op
    return made
