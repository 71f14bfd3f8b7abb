"""Arrays of other libraries: passed without a copy, and returned as arrays of that library.

They support DLPack (https://dmlc.github.io/dlpack) or NumPy's array interface. No library is imported here: a caller
that has one of its arrays has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np

from metasched.dtypes import DType, integer_of_size, of_other_package
from metasched.errors import KernelError
from metasched.support.messages import a_or_an

Array = np.ndarray[Any, Any]

_DLPACK_LACKS_READ_ONLY = np.lib.NumpyVersion(np.__version__) < "2.1.0"


# What is passed on as it is.
_NATIVE_TYPES = (np.ndarray, np.generic, bool, int, float, str, bytes, list, tuple)


class Device(IntEnum):
    """DLPack's numbers of devices whose memory a CPU can use."""

    CPU = 1
    CUDA_HOST = 3
    ROCM_HOST = 11


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library, of one of the two protocols; NumPy's own and numbers are none."""
    if isinstance(value, _NATIVE_TYPES):
        return False
    kind = type(value)
    speaks = (
        hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__") or hasattr(value, "__array_interface__")
    )
    return speaks or hasattr(kind, "__cuda_array_interface__")


class _WritableMemory:
    """The memory of a NumPy array, which may be written. A view of it keeps this alive, and so the array."""

    def __init__(self, array: Array) -> None:
        self._array = array
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def _from_dlpack(value: Any) -> Array:
    """The array of a value that supports DLPack.

    Before version 1 the protocol could not say whether memory may be written: what may not be was not to be exported
    (https://data-apis.org/array-api/latest/design_topics/data_interchange.html), and NumPy before 2.1 takes all of it
    for read-only.
    """
    array: Array = np.from_dlpack(value)
    if array.flags.writeable or not _DLPACK_LACKS_READ_ONLY:
        return array
    return np.asarray(_WritableMemory(array))


def as_numpy(name: str, value: Any) -> Any:
    """An array of another library as NumPy's, of the same memory; any other value as it is.

    Raises KernelError for one that wants gradients, or is not in memory that the CPU can use.
    """
    if not is_foreign(value):
        return value
    if getattr(value, "requires_grad", False) is True:
        raise KernelError(f"`{name}` wants gradients, and kernels have no derivatives", hint=f"pass `{name}.detach()`")
    try:
        _require_cpu_memory(name, value)
        if not hasattr(type(value), "__dlpack__"):
            return np.asarray(value)
        dtype = of_other_package(str(getattr(value, "dtype", "")).rpartition(".")[2])
        if dtype is None:
            return _from_dlpack(value)
        return _from_dlpack(value.view(getattr(_namespace(value), _integer_dtype(dtype).name))).view(dtype.numpy)
    except (BufferError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise KernelError(
            f"`{name}` is {a_or_an(type(value).__name__)} that cannot be read as an array: {error}"
        ) from error


def _require_cpu_memory(name: str, value: Any) -> None:
    place = ""
    if hasattr(type(value), "__dlpack_device__"):
        device = int(value.__dlpack_device__()[0])
        place = "" if device in set(Device) else str(getattr(value, "device", "") or f"device {device} of DLPack")
    elif hasattr(type(value), "__cuda_array_interface__") and not hasattr(value, "__array_interface__"):
        place = "a GPU"
    if place:
        raise KernelError(
            f"`{name}` is in the memory of {place}, and kernels run on the CPU", hint="copy it there first"
        )


class Library:
    """The library that results are made arrays of."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    @classmethod
    def find(cls, values: Iterable[Any]) -> Library | None:
        """The library of the first array which is not NumPy's; None where there is none, or it cannot make arrays."""
        for value in values:
            if is_foreign(value):
                namespace = _namespace(value)
                return cls(namespace) if hasattr(namespace, "from_dlpack") else None
        return None

    def array(self, array: Array) -> Any:
        """A result of NumPy's as an array of the library, of the same memory. Raises KernelError for types it lacks."""
        dtype = of_other_package(array.dtype.name)
        if dtype is None:
            return self._namespace.from_dlpack(array)
        name = dtype.numpy.name
        if not hasattr(self._namespace, name):
            raise KernelError(f"{self._namespace.__name__} has no element type {name}", hint="pass NumPy arrays")
        return self._namespace.from_dlpack(array.view(_integer_dtype(dtype))).view(getattr(self._namespace, name))


def _integer_dtype(dtype: DType) -> np.dtype[Any]:
    """The integers that stand for a type that NumPy lacks, and that every library has."""
    return integer_of_size(dtype.bits).numpy


def _namespace(value: Any) -> Any:
    """The module whose functions work on an array: by the array API standard, else that of its class."""
    if hasattr(type(value), "__array_namespace__"):
        return value.__array_namespace__()
    modules = [sys.modules.get(kind.__module__.partition(".")[0]) for kind in type(value).__mro__]
    return next((module for module in modules if hasattr(module, "from_dlpack")), None)
