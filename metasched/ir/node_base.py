"""What every node of the IR is: a value with structural equality, and the generic traversal over it.

A node is a frozen dataclass; equality and hashing are structural, and the hash is cached, so nodes are cheap
dictionary keys and passes memoise on them. `children` and `map` come from the declared fields: adding a field
to a node needs no change to any pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from metasched.ir.node_methods import METHOD_NAMES, write_methods
from metasched.support.data_classes import dataclass

T = TypeVar("T")


class Node:
    """Base of every IR node."""

    _hash: ClassVar[int | None] = None  # of the class: no hash yet

    def _values(self) -> tuple[Any, ...]:
        """All fields in order."""
        write_methods(type(self), Node)
        return self._values()

    def __hash__(self) -> int:
        write_methods(type(self), Node)
        return hash(self)

    def __eq__(self, other: object) -> bool:
        write_methods(type(self), Node)
        return self == other

    def __getstate__(self) -> dict[str, Any]:
        # String hashes differ between processes, so a cached hash must not travel in a pickle.
        return {name: getattr(self, name) for name in field_names(type(self))}

    def children(self) -> tuple[Node, ...]:
        """The nodes directly below this one, in field order."""
        write_methods(type(self), Node)
        return self.children()

    def map(self, fn: Callable[[Any], Any]) -> Self:
        """This node with `fn` applied to each child; `self` itself when nothing changed."""
        write_methods(type(self), Node)
        return self.map(fn)

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, parents first."""
        stack: list[Node] = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children()[::-1])

    def parts(self, seen: set[int] | None = None) -> Iterator[Node]:
        """Each object at or below this one once, in the order of `walk`: an expression may use a part many times.

        `seen` are the identities of objects that are left out, with what is below them; those met are added to it.
        """
        stack: list[Node] = [self]
        seen = set() if seen is None else seen
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                stack.extend(node.children()[::-1])


_NAMES: dict[type, tuple[str, ...]] = {}


def field_names(cls: type) -> tuple[str, ...]:
    """The fields of a kind of node."""
    names = _NAMES.get(cls)
    if names is None:
        names = _NAMES[cls] = tuple(f.name for f in fields(cls))
    return names


@dataclass_transform(frozen_default=True, eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Declare a node: a frozen dataclass with `Node`'s structural equality."""
    made = dataclass(frozen=True, eq=False)(cls)
    # Each kind has its own of these, which are written out at their first use: not at import, which most end without.
    for name in METHOD_NAMES:
        if name not in vars(made):
            setattr(made, name, getattr(Node, name))
    return made
