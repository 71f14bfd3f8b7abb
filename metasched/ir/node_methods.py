"""The methods by which a kind of node is traversed, written out for its fields.

Traversal is where replaying, lowering and emission spend much of their time. What a field may hold is known from its
declared type, so that the methods of a kind ask nothing of a field that can hold no node; a type that this file cannot
tell is looked into each time.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from enum import Enum
from operator import is_
from typing import Any

METHOD_NAMES = ("_values", "children", "map", "__eq__", "__hash__")
_NAME = re.compile(r"[A-Za-z_]\w*")


class _Holds(Enum):
    """What a field holds."""

    NO_NODE = "no node"
    NODE = "a node"
    NODE_OR_NONE = "a node or None"
    NODES = "a tuple of nodes"
    ANYTHING = "anything"


# The nodes of a field as items of a tuple, and the field with a function applied to each of them.
_ITEMS = {
    _Holds.NODE: "self.{0}, ",
    _Holds.NODE_OR_NONE: "*(() if self.{0} is None else (self.{0},)), ",
    _Holds.NODES: "*self.{0}, ",
    _Holds.ANYTHING: "*nodes_in(self.{0}), ",
}
_MAP_TEMPLATES = {
    _Holds.NODE: "fn(self.{0})",
    _Holds.NODE_OR_NONE: "None if self.{0} is None else fn(self.{0})",
    _Holds.NODES: "mapped(self.{0}, fn)",
    _Holds.ANYTHING: "mapped_in(self.{0}, fn)",
}


def write_methods(cls: type, base: type, names: Sequence[str] = METHOD_NAMES) -> None:
    """Give a frozen dataclass below `base` its own of the methods of these `names` that it still has from `base`."""
    space = vars(sys.modules[cls.__module__])
    kinds = {f.name: _kind(str(f.type), space, base) for f in fields(cls)}
    nodes = {name: kind for name, kind in kinds.items() if kind is not _Holds.NO_NODE}
    items = "".join(_ITEMS[kind].format(name) for name, kind in nodes.items())
    values, others = ("".join(f"{of}.{name}, " for name in kinds) for of in ("self", "other"))
    unchanged = " and ".join(f"{name} is self.{name}" for name in nodes)
    given = {f: f.name if f.name in nodes else f"self.{f.name}" for f in sorted(fields(cls), key=_is_by_name)}
    arguments = ", ".join(f"{f.name}={value}" if _is_by_name(f) else value for f, value in given.items())
    texts = {
        "_values": ["def _values(self):", f"    return ({values})"],
        "children": ["def children(self):", f"    return ({items})"],
        "map": [
            "def map(self, fn):",
            *(f"    {name} = {_MAP_TEMPLATES[kind].format(name)}" for name, kind in nodes.items()),
            f"    return self if {unchanged or True} else self.__class__({arguments})",
        ],
        "__eq__": [
            "def __eq__(self, other):",
            "    if self is other:",
            "        return True",
            "    unlike = self.__class__ is not other.__class__",
            "    if unlike or (self._hash or hash(self)) != (other._hash or hash(other)):",
            "        return False",
            f"    return ({values}) == ({others})",
        ],
        "__hash__": [
            "def __hash__(self):",
            "    value = self._hash",
            "    if value is None:",
            f"        value = hash(({cls.__name__!r}, {values}))",
            '        keep(self, "_hash", value)',
            "    return value",
        ],
    }
    written: dict[str, Any] = {}
    exec("\n".join(line for name in names for line in texts[name]), _helpers(base), written)
    for name in names:
        if getattr(cls, name) is getattr(base, name):
            setattr(cls, name, written[name])


def _is_by_name(field: Field[Any]) -> bool:
    """Whether a field is given by its name to the class that makes a node."""
    return field.kw_only is True


def _helpers(base: type) -> dict[str, Any]:
    """What the methods call."""

    def nodes_in(value: Any) -> tuple[Any, ...]:
        if isinstance(value, base):
            return (value,)
        return tuple(item for item in value if isinstance(item, base)) if isinstance(value, tuple) else ()

    def mapped_in(value: Any, fn: Callable[[Any], Any]) -> Any:
        if isinstance(value, base):
            return fn(value)
        if not nodes_in(value):
            return value
        return mapped(value, lambda item: fn(item) if isinstance(item, base) else item)

    def mapped(items: tuple[Any, ...], fn: Callable[[Any], Any]) -> tuple[Any, ...]:
        new = tuple(map(fn, items))
        return items if all(map(is_, new, items)) else new

    return {"nodes_in": nodes_in, "mapped_in": mapped_in, "mapped": mapped, "keep": object.__setattr__}


def _kind(written: str, space: Mapping[str, Any], base: type) -> _Holds:
    """What a field holds whose type is written so in a module of these names."""
    names = _NAME.findall(written)
    types = {name: None if name == "None" else space.get(name, vars(builtins).get(name)) for name in names}
    of_nodes = [name for name, kind in types.items() if isinstance(kind, type) and issubclass(kind, base)]
    if not of_nodes:
        known = all(name == "None" or (isinstance(kind, type) and kind is not object) for name, kind in types.items())
        return _Holds.NO_NODE if known else _Holds.ANYTHING
    (first, *others) = of_nodes
    forms = {
        first: _Holds.NODE,
        f"{first} | None": _Holds.NODE_OR_NONE,
        f"tuple[{first}, ...]": _Holds.NODES,
    }
    return _Holds.ANYTHING if others else forms.get(written, _Holds.ANYTHING)
