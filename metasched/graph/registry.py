"""The node types that are known, found by the files of `metasched.graph.node_types`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, ModuleType
from typing import TypeAlias

from metasched.graph.builder import GraphValue
from metasched.graph.site import NodeSite
from metasched.support.declared_files import DeclaredFiles

Import: TypeAlias = Callable[[NodeSite], tuple[GraphValue | None, ...]]


@dataclass(frozen=True)
class NodeType:
    """How nodes of a type are imported.

    Attributes:
        name: the type, with `domain:` before it where that is not ONNX's own.
        run: gives the node's outputs, in their order; those that nothing uses may be None. Raises Unsupported.

    """

    name: str
    run: Import


def node_type(*names: str) -> Callable[[Import], Import]:
    """Declare that a function imports nodes of these types."""

    def declare(function: Import) -> Import:
        function.__dict__["node_types"] = names
        return function

    return declare


def _read(name: str, module: ModuleType) -> tuple[NodeType, ...]:
    found = [
        NodeType(op, value)
        for value in vars(module).values()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
        for op in getattr(value, "node_types", ())
    ]
    found += [NodeType(op, run) for op, run in getattr(module, "TABLE", {}).items()]
    if not found:
        raise TypeError(f"{module.__name__} must declare a node type: a function with `@node_type`, or a `TABLE`")
    return tuple(found)


FILES = DeclaredFiles("metasched.graph.node_types", "node type", _read)


@cache
def node_types() -> Mapping[str, NodeType]:
    """Every node type that is known, by name. Raises TypeError where two files declare one."""
    found: dict[str, NodeType] = {}
    for file, declared in FILES.load().items():
        for one in declared:
            if one.name in found:
                raise TypeError(f"{FILES.package}.{file} declares {one.name}, which another file declares")
            found[one.name] = one
    return MappingProxyType(found)
