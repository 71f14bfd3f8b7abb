"""Calls of a network whose inputs and outputs grow: arrays are given and returned as long as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.graph.ir import Array, Graph, Growth


def with_room(graph: Graph, given: Mapping[str, Any]) -> list[Any]:
    """The inputs of a call in arrays that have room for the longest, zeros behind; the length as an array.

    An input may have that room, too. Raises KernelError for a length that is none or too long, and for an input that
    is not as long as it says.
    """
    growth = graph.growth
    assert growth is not None
    length = _length(growth, given[growth.length])
    made = {**given, growth.length: np.asarray(length, np.int64)}
    for name in growth.values:
        if name in given and isinstance(given[name], np.ndarray):
            made[name] = _extended(graph, growth, name, given[name], length)
    return list(made.values())


def without_room(graph: Graph, given: Mapping[str, Any], results: Sequence[Array]) -> list[Array]:
    """The results of a call as long as they are."""
    growth = graph.growth
    assert growth is not None
    length = int(given[growth.length])
    held = set(graph.states.values())
    names = [name for label, name in graph.outputs if label not in held]
    shapes = [growth.shape(name, array.shape, length) for name, array in zip(names, results, strict=True)]
    return [array[tuple(slice(0, n) for n in shape)] for array, shape in zip(results, shapes, strict=True)]


def _length(growth: Growth, value: Any) -> int:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise KernelError(f"`{growth.length}` is one whole number, how long the caches are, and {value!r} is given")
    length = int(array.reshape(-1)[0])
    if not 0 <= length <= growth.longest:
        raise KernelError(
            f"`{growth.length}` is {length}, and there is room for a call at 0 to {growth.longest}\n"
            "  hint: load the model with a larger GrowingSize"
        )
    return length


def _extended(graph: Graph, growth: Growth, name: str, array: Array, length: int) -> Array:
    whole = graph.types[name]
    shape = growth.shape(name, whole.shape, length)
    if array.shape == whole.shape:
        return array
    if array.shape != shape:
        raise KernelError(
            f"the input `{name}` has the shape {array.shape}, and at `{growth.length}` {length} it is to have {shape}"
        )
    made = np.zeros(whole.shape, array.dtype)
    made[tuple(slice(0, n) for n in shape)] = array
    return made
