"""Inputs of a network: arrays of its types, checked, and random ones for trying it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.dtypes import elements
from metasched.errors import KernelError
from metasched.graph.ir import Array
from metasched.graph.value_type import ValueType
from metasched.runtime.foreign import as_numpy
from metasched.support.messages import a_or_an, counted


def random_inputs(types: Mapping[str, ValueType], seed: int = 0) -> dict[str, Array]:
    """An array for each name: normally distributed numbers, and 0 or 1 where a type has no others that surely mean
    something (integers, such as tokens or positions, and booleans).

    The same seed, names and types give the same arrays.
    """
    return {name: _random(type_, np.random.default_rng([seed, *name.encode()])) for name, type_ in types.items()}


def _random(type_: ValueType, rng: np.random.Generator) -> Array:
    if type_.dtype.is_float:
        return elements(rng.standard_normal(type_.shape), type_.dtype)
    return rng.integers(0, 2, type_.shape).astype(type_.dtype.numpy)


class UsualInputs:
    """What calls are mostly given: NumPy arrays of just the types that a network takes, which is quickly seen."""

    def __init__(self, wanted: Mapping[str, ValueType]) -> None:
        self._types = tuple((type_.dtype.numpy, type_.shape) for type_ in wanted.values())

    def are(self, inputs: Sequence[Any]) -> bool:
        """Whether a call is given these; `require_types` says of anything else whether it can be taken."""
        if len(inputs) != len(self._types):
            return False
        for array, (dtype, shape) in zip(inputs, self._types, strict=True):
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return False
        return True


def as_arrays(network: str, wanted: Mapping[str, ValueType], inputs: Sequence[Any]) -> list[Array]:
    """What a call gives as NumPy arrays, where it can be. Raises KernelError for too many or too few."""
    if len(inputs) != len(wanted):
        listed = ", ".join(f"{name}: {type_}" for name, type_ in wanted.items())
        given = counted(len(inputs), "input is", "inputs are")
        raise KernelError(f"network `{network}` takes ({listed}), and {given} given")
    return [
        np.asarray(value) if isinstance(value, np.generic) else as_numpy(name, value)
        for name, value in zip(wanted, inputs, strict=True)
    ]


def require_types(wanted: Mapping[str, ValueType], taken: Sequence[Array]) -> list[Array]:
    """Arrays of a call. Raises KernelError for what is not of the type that a network takes."""
    for (name, type_), array in zip(wanted.items(), taken, strict=True):
        if not isinstance(array, np.ndarray):
            raise KernelError(f"the input `{name}` is {type_}, and {a_or_an(type(array).__name__)} is given")
        if array.dtype != type_.dtype.numpy or array.shape != type_.shape:
            raise KernelError(
                f"the input `{name}` is {type_}, and an array of {array.dtype} {array.shape} is given",
                hint="cast or reshape it; other sizes are bound at load",
            )
    return list(taken)
