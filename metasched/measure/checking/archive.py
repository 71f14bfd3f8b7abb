"""Arrays in a file, of every element type: those that NumPy's own format does not know are kept as their bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.dtypes import DType, of_other_package

# What comes after an array's name in the file: the type of which the bits are kept, or that values are. No name has a
# colon, so none is taken for an argument of NumPy's own, such as `file`; releases before 2 would keep `allow_pickle` as
# an array.
_MARK, _VALUES = ":", ":values"


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an `.npz`, at once: another process sees all of it or nothing."""
    kept: dict[str, Any] = {}
    for name, array in arrays.items():
        dtype = of_other_package(array.dtype.name)
        if dtype is not None:
            kept[f"{name}{_MARK}{dtype}"] = np.ascontiguousarray(array).view(dtype.bit_pattern)
        else:
            kept[name + _VALUES] = array
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, **kept)
    partial.replace(path)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """What `write_arrays` wrote."""
    found = {}
    with np.load(path, allow_pickle=False) as file:
        for member in file.files:
            array = file[member]
            name, _, kind = member.rpartition(_MARK)
            found[name] = array if member.endswith(_VALUES) else array.view(DType(kind).numpy)
    return found
