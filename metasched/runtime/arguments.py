"""Checks of what a kernel is called with. Each message names the argument and says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.ma import MaskedArray

from metasched.errors import KernelError
from metasched.runtime.addresses import data_pointer
from metasched.runtime.compiled import KernelArgument
from metasched.support.messages import a_or_an, counted


def check_count(kernel: str, parameters: Sequence[KernelArgument], given: int) -> None:
    if given != len(parameters):
        expected = ", ".join(map(str, parameters))
        raise KernelError(f"`{kernel}` takes {counted(len(parameters), 'argument')} ({expected}), not {given}")


def pointer(p: KernelArgument, dtype: np.dtype[Any], array: Any) -> int:
    """The address of a checked array: an ndarray of the parameter's dtype and shape, C-contiguous and aligned."""
    if type(array) is not np.ndarray and not isinstance(array, np.ndarray):
        raise KernelError(
            f"`{p.name}` is {a_or_an(type(array).__name__)}, not a NumPy array", hint=f"pass `numpy.asarray({p.name})`"
        )
    require_unmasked(p.name, array)
    if array.dtype != dtype:
        raise KernelError(
            f"`{p.name}` has dtype {array.dtype}; the kernel takes {dtype}",
            hint=f"convert it with `{p.name}.astype({dtype.name!r})`",
        )
    if array.shape != p.shape:
        raise KernelError(
            f"`{p.name}` has shape {array.shape}; this kernel was compiled for {p.shape}",
            hint="compile the program for the new sizes, or reshape",
        )
    flags = array.flags
    if not flags.c_contiguous:
        raise KernelError(
            f"`{p.name}` is not C-contiguous (strides {array.strides})",
            hint=f"copy it first with `numpy.ascontiguousarray({p.name})`",
        )
    if not flags.aligned:
        raise KernelError(
            f"`{p.name}` is not aligned to its element size", hint=f"copy it first with `{p.name}.copy()`"
        )
    if p.below is not None:
        _check_indices(p, array, p.below)
    return data_pointer(array)


def require_unmasked(name: str, array: np.ndarray[Any, Any]) -> None:
    """Raise KernelError for a masked array: masked elements would be computed with like others."""
    if isinstance(array, MaskedArray):
        raise KernelError(f"`{name}` is a masked array, and kernels know no masks", hint=f"pass `{name}.filled(value)`")


def _check_indices(p: KernelArgument, array: np.ndarray[Any, Any], below: int) -> None:
    """One pass over the array, which NumPy makes at memory speed."""
    if array.size and (int(array.max()) >= below or int(array.min()) < 0):
        wrong = np.argwhere((array < 0) | (array >= below))[0]
        at = ", ".join(map(str, wrong))
        raise KernelError(
            f"`{p.name}[{at}]` is {array[tuple(wrong)]}, and another argument is indexed by it, of {below} elements",
            hint=f"indices are 0 to {below - 1}; negative ones do not count from the end",
        )


def check_output(p: KernelArgument, array: np.ndarray[Any, Any]) -> None:
    if not array.flags.writeable:
        raise KernelError(f"`out` for `{p.name}` is read-only", hint="pass an array that can be written")


def check_overlap(parameters: Sequence[KernelArgument], values: Sequence[Any], sizes: Sequence[int]) -> None:
    """No output may share memory with an input or another output. `sizes` are in bytes, 0 for a scalar."""
    for n, output in enumerate(parameters):
        if not output.is_output:
            continue
        start, stop = values[n], values[n] + sizes[n]
        for m, other in enumerate(parameters):
            if m != n and sizes[m] and values[m] < stop and start < values[m] + sizes[m]:
                what = "output" if other.is_output else "input"
                raise KernelError(
                    f"`out` for `{output.name}` overlaps the {what} `{other.name}`", hint="pass separate memory"
                )
