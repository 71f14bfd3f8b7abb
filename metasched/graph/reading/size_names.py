"""The names of sizes that the inputs of a model leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What an open size is called where a model has no names.
BATCH = "batch"


def size_names(inputs: Sequence[Any]) -> Mapping[str, tuple[str, ...]]:
    """For each input, the name of each size: '' for one that has none.

    Where no input names any, an open size along a first dimension is `batch`: converters of models of tables leave the
    number of rows without a name.
    """
    dims = {value.name: value.type.tensor_type.shape.dim for value in inputs}
    nameless = not any(dim.dim_param for own in dims.values() for dim in own)
    return {
        name: tuple(
            BATCH if nameless and not number and not dim.HasField("dim_value") else str(dim.dim_param)
            for number, dim in enumerate(own)
        )
        for name, own in dims.items()
    }
