"""Arrays in a file, of every element type: NumPy's own format does not know bf16, which is kept as its bits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metasched.dtypes import DType

# What comes after an array's name in the file, by what is kept of it. No name has a colon, so none is taken for an
# argument of NumPy's own, such as `file`; releases before 2 would keep `allow_pickle` as an array.
_BITS, _VALUES = ":bits", ":values"


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write an `.npz`, at once: another process sees all of it or nothing."""
    kept: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.dtype == DType.BF16.numpy:
            kept[name + _BITS] = np.ascontiguousarray(array).view(np.uint16)
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
        for name in file.files:
            array = file[name]
            if name.endswith(_BITS):
                found[name.removesuffix(_BITS)] = array.view(DType.BF16.numpy)
            else:
                found[name.removesuffix(_VALUES)] = array
    return found
