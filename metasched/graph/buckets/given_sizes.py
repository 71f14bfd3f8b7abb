"""The sizes that a call's inputs have, which decide what it runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.graph.buckets.size_range import SizeRange


def given_sizes(
    ranges: Mapping[str, SizeRange], dims_of: Mapping[str, Sequence[str]], inputs: Sequence[Any]
) -> dict[str, int]:
    """The sizes that are ranges, of inputs whose dimensions have these names.

    Raises KernelError where two inputs have different ones, or one is none of its range.
    """
    found: dict[str, tuple[int, str]] = {}
    for (name, dims), array in zip(dims_of.items(), inputs, strict=True):
        shape = np.shape(array)
        if len(shape) != len(dims):
            raise KernelError(f"the input `{name}` has {len(dims)} dimensions, and {shape} is given")
        for dim, size in zip(dims, shape, strict=True):
            if dim not in ranges:
                continue
            if size not in ranges[dim].sizes:
                raise KernelError(f"`{dim}`, of the input `{name}`, is {ranges[dim].refusal(size)}")
            have, other = found.setdefault(dim, (size, name))
            if have != size:
                raise KernelError(f"`{dim}` is {have} in the input `{other}`, and {size} in `{name}`")
    return {name: size for name, (size, _) in found.items()}
