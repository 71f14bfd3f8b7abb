"""The arguments of one call of `ms.kernel`'s function: their types, and their memory layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.lang.shorthand_shapes import ArgumentType, ScalarType, TensorType
from metasched.runtime.arguments import require_unmasked
from metasched.runtime.foreign import as_numpy
from metasched.runtime.memory_order import memory_order
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an

_DTYPES = {dtype.numpy: dtype for dtype in DType}


@dataclass(frozen=True)
class CallArgument:
    """An argument: a number, or an array. An array's `value` has its dimensions in memory order, which is `order` where
    that is not the array's own.
    """

    name: str
    value: Any
    type: ArgumentType
    order: tuple[int, ...] | None = None
    bytes_to_copy: int = 0

    def contiguous_value(self) -> Any:
        """The value, copied where it is strided."""
        return np.array(self.value, order="C", subok=False) if self.bytes_to_copy else self.value


def inspect_argument(name: str, value: Any, is_tensor: bool) -> CallArgument:
    """Look at an argument; nothing is copied yet. Raises KernelError for what no kernel takes."""
    value = as_numpy(name, value)
    if not is_tensor:
        return CallArgument(name, value, _scalar_type(name, value))
    tensor = _tensor_type(name, value)
    flags = value.flags
    if flags.c_contiguous and flags.aligned:
        return CallArgument(name, value, tensor)
    order = memory_order(value) if flags.aligned else None
    if order is None:
        return CallArgument(name, value, tensor, bytes_to_copy=value.nbytes)
    return CallArgument(name, value.transpose(order), TensorType(tensor.dtype, tensor.shape, order), order)


def _scalar_type(name: str, value: Any) -> ScalarType:
    if isinstance(value, np.ndarray) and value.ndim:
        raise KernelError(f"`{name}` is an array of shape {value.shape}; it is not indexed, so it takes a number")
    if isinstance(value, np.generic | np.ndarray):
        return ScalarType(_require_dtype(name, value.dtype), fixed=True)
    if isinstance(value, bool):
        return ScalarType(DType.BOOL, fixed=True)
    if isinstance(value, int | float):
        return ScalarType(DType.I64 if isinstance(value, int) else DType.F64, fixed=False)
    raise KernelError(f"`{name}` is {a_or_an(type(value).__name__)}; it takes a number")


def _tensor_type(name: str, value: Any) -> TensorType:
    if not isinstance(value, np.ndarray):
        raise KernelError(
            f"`{name}` is {a_or_an(type(value).__name__)}, not a NumPy array", hint=f"pass `numpy.asarray({name})`"
        )
    require_unmasked(name, value)
    empty = [n for n, extent in enumerate(value.shape) if extent == 0]
    if empty:
        raise KernelError(f"`{name}` has shape {value.shape}; dimension {empty[0]} is empty")
    return TensorType(_require_dtype(name, value.dtype), value.shape)


def _require_dtype(name: str, dtype: np.dtype[Any]) -> DType:
    found = _DTYPES.get(dtype)
    if found is None:
        known = ", ".join(d.name for d in _DTYPES)
        native = dtype.newbyteorder("=")
        convert = f"put its bytes in this machine's order: `{name}.astype('{native.name}')`"
        raise KernelError(
            f"`{name}` has dtype {dtype.str if dtype.names is None else dtype}; kernels take {known}",
            hint=convert if native in _DTYPES else "",
        )
    return found
