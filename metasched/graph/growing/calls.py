"""Calls of a network whose inputs and outputs grow: arrays are given and returned as long as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.graph.ir import Array
from metasched.graph.placement import Growth
from metasched.graph.signature import Signature


def extend_inputs(signature: Signature, given: Mapping[str, Any]) -> list[Any]:
    """The inputs of a call in arrays that have room for the longest, zeros behind; the length as an array.

    An input may have that room, too. Raises KernelError for a length that is none or too long, and for an input that
    is not as long as it says.
    """
    growth = signature.growth
    assert growth is not None
    length = length_of(growth, given[growth.length])
    made = {**given, growth.length: np.asarray(length, np.int64)}
    for name in growth.values:
        if name in given and isinstance(given[name], np.ndarray):
            made[name] = _extend_input(signature, growth, name, given[name], length)
    return list(made.values())


def cut_to_length(signature: Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a call: those with the room that `signature` has are cut to the length.

    Raises KernelError for a length that is none or too long.
    """
    growth = signature.growth
    assert growth is not None
    length = length_of(growth, given[growth.length])
    made = dict(given)
    for name in growth.values:
        whole = signature.inputs.get(name)
        if name in given and whole is not None and np.shape(given[name]) == whole.shape:
            made[name] = _cut_to_shape(np.asarray(given[name]), growth.shape(name, whole.shape, length))
    return made


def cut_results(signature: Signature, given: Mapping[str, Any], results: Sequence[Array]) -> list[Array]:
    """The results of a call as long as they are."""
    growth = signature.growth
    assert growth is not None
    length = int(given[growth.length])
    pairs = zip(signature.returned, results, strict=True)
    return [_cut_to_shape(array, growth.shape(label, array.shape, length)) for label, array in pairs]


def _cut_to_shape(array: Array, shape: Sequence[int]) -> Array:
    return array[tuple(slice(0, n) for n in shape)]


def length_of(growth: Growth, value: Any) -> int:
    """How long the caches are before a call. Raises KernelError for what is no length, or one that is too long."""
    length = require_length(growth, value)
    if length < 0:
        raise KernelError(
            f"`{growth.length}` is {length}, and how long caches are is not negative: the first call has 0, and there "
            f"is room for a call at 0 to {growth.longest}"
        )
    if length > growth.longest:
        raise KernelError(
            f"`{growth.length}` is {length}, and there is room for a call at 0 to {growth.longest}",
            hint="load the model with a larger GrowingSize",
        )
    return length


def require_length(growth: Growth, value: Any) -> int:
    """The number that a call gives as the length. Raises KernelError for what is none."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise KernelError(f"`{growth.length}` is one whole number, how long the caches are, and {value!r} is given")
    return int(array.reshape(-1)[0])


def _extend_input(signature: Signature, growth: Growth, name: str, array: Array, length: int) -> Array:
    whole = signature.inputs[name]
    shape = growth.shape(name, whole.shape, length)
    if array.shape == whole.shape:
        return array
    if array.shape != shape:
        raise KernelError(
            f"the input `{name}` has the shape {array.shape}, and at `{growth.length}` {length} it is to have {shape}"
        )
    made = np.zeros(whole.shape, array.dtype)
    _cut_to_shape(made, shape)[...] = array
    return made
