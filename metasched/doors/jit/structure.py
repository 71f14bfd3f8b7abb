"""Tuples, lists and dicts of arrays, as a flat list and back.

A structure is what is left of a value when its arrays are taken out: it can be compared, and is part of what a function
is traced for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Leaf:
    """The place of an array."""


@dataclass(frozen=True)
class Static:
    """A value that is no array: 1, 1.0 and True are three, and so are 0.0 and -0.0.

    A float is its text, as no number is one number.
    """

    kind: type
    value: Any


@dataclass(frozen=True)
class ListStructure:
    """A tuple (of a class of its own, if it is a named one) or a list."""

    kind: type
    items: tuple[Structure, ...]


@dataclass(frozen=True)
class DictStructure:
    """A dict, in the order of its keys."""

    keys: tuple[Any, ...]
    items: tuple[Structure, ...]


Structure: TypeAlias = Leaf | Static | ListStructure | DictStructure
LEAF = Leaf()


def flatten(value: Any, is_array: Callable[[Any], bool], name: str, found: list[tuple[str, Any]]) -> Structure:
    """The structure of a value, whose arrays are appended to `found`, each with its name: `p['w'][0]`."""
    if is_array(value):
        found.append((name, value))
        return LEAF
    kind = type(value)
    if isinstance(value, tuple | list):
        return ListStructure(kind, tuple(flatten(v, is_array, f"{name}[{n}]", found) for n, v in enumerate(value)))
    if kind is dict:
        items = tuple(flatten(v, is_array, f"{name}[{key!r}]", found) for key, v in value.items())
        return DictStructure(tuple(value), items)
    return Static(kind, value.hex() if kind is float else value)


def unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    """The value of a structure, with these arrays in the places of its leaves."""
    if isinstance(structure, Leaf):
        return next(leaves)
    if isinstance(structure, Static):
        return float.fromhex(structure.value) if structure.kind is float else structure.value
    items = [unflatten(item, leaves) for item in structure.items]
    if isinstance(structure, DictStructure):
        return dict(zip(structure.keys, items, strict=True))
    if hasattr(structure.kind, "_fields"):
        return structure.kind(*items)
    return structure.kind(items)
