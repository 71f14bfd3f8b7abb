"""Inputs for trying a network: random numbers of its types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from metasched.graph.ir import Array, ValueType


def random_inputs(types: Mapping[str, ValueType], seed: int = 0) -> dict[str, Array]:
    """An array for each name: normally distributed numbers, and 0 or 1 where a type has no others that surely mean
    something (integers, such as tokens or positions, and booleans).

    The same seed, names and types give the same arrays.
    """
    return {name: _random(type_, np.random.default_rng([seed, *name.encode()])) for name, type_ in types.items()}


def _random(type_: ValueType, rng: np.random.Generator) -> Array:
    if type_.dtype.is_float:
        return rng.standard_normal(type_.shape).astype(type_.dtype.numpy)
    return rng.integers(0, 2, type_.shape).astype(type_.dtype.numpy)
