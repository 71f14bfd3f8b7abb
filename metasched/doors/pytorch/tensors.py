"""PyTorch's types and tensors as ours: the same memory, dimensions in the order in which they lie there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from metasched.dtypes import DType, integer_of_size, of_other_package
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.value_type import ValueType
from metasched.support.imports import imports

# The language's types by PyTorch's names of them, which are NumPy's.
_TYPES = MappingProxyType({dtype.numpy.name: dtype for dtype in DType})

# Shape and strides of a tensor that has its memory for itself.
Layout = tuple[tuple[int, ...], tuple[int, ...]]


@cache  # calls ask for it, and an import that is done takes microseconds, too
def torch_module() -> Any:
    """PyTorch. Whoever calls a backend of its has imported it."""
    return imports.module("torch")


def language_type(dtype: Any) -> DType:
    """The language's element type of one of PyTorch's. Raises Unsupported where it has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in _TYPES:
        raise Unsupported(f"the language has no element type {name}")
    return _TYPES[name]


def value_type(tensor: Any) -> ValueType:
    """Element type and shape of a tensor. Raises Unsupported for sizes that are no numbers, and other layouts."""
    if not all(isinstance(extent, int) for extent in tensor.shape):
        raise Unsupported(f"its shape {tuple(tensor.shape)} is not known")
    if str(tensor.layout) != "torch.strided" or tensor.device.type != "cpu":
        raise Unsupported(f"it is {tensor.layout} on {tensor.device}, and kernels take strided tensors on the CPU")
    return ValueType(language_type(tensor.dtype), tuple(tensor.shape))


def memory_order(tensor: Any) -> tuple[int, ...]:
    """The dimensions of a tensor from the outermost in memory to the innermost; of channels-last, (0, 2, 3, 1).

    It is the order of its dimensions for what is contiguous, and for what has gaps or overlaps.
    """
    plain = tuple(range(tensor.dim()))
    return plain if tensor.is_contiguous() or not fills_its_memory(tensor) else _dims_by_stride(tensor)


def fills_its_memory(tensor: Any) -> bool:
    """Whether a tensor's elements lie side by side, in some order of its dimensions."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for dim in reversed(_dims_by_stride(tensor)):
        if tensor.shape[dim] != 1 and tensor.stride(dim) != expected:
            return False
        expected *= tensor.shape[dim]
    return True


def _dims_by_stride(tensor: Any) -> tuple[int, ...]:
    return tuple(sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), dim)))


def permutation(order: Sequence[int]) -> tuple[int, ...] | None:
    """An order of dimensions as what has to be done to put them in it; None where that is nothing."""
    return None if all(n == dim for n, dim in enumerate(order)) else tuple(order)


def layout(tensor: Any) -> Layout | None:
    """How a tensor's elements lie, in the order of `memory_order`; None for what is contiguous, or has gaps.

    Strides that say nothing, of empty tensors and along dimensions of size one, are as PyTorch has them, too.
    """
    plain = tensor.new_empty(tensor.shape).stride()
    if tensor.numel() and (tensor.stride() == plain or not fills_its_memory(tensor)):
        return None
    return tuple(tensor.shape), tuple(tensor.stride())


def as_array(tensor: Any, moved: Sequence[int] | None = None) -> Array:
    """A tensor's memory as an array, its dimensions put in an order."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if moved is not None:
        tensor = tensor.permute(moved)
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    dtype = _extension_type(tensor.dtype)
    array: Array = tensor.numpy() if dtype is None else tensor.view(_bits(dtype)).numpy().view(dtype.numpy)
    return array


@cache
def _extension_type(dtype: Any) -> DType | None:
    """The language's type of PyTorch's or NumPy's where NumPy itself has none of it; None for others."""
    return of_other_package(str(dtype).removeprefix("torch."))


def _bits(dtype: DType) -> Any:
    """PyTorch's integers of a type's size."""
    return getattr(torch_module(), integer_of_size(dtype.bits).numpy.name)


def as_tensor(array: Array, layout: Layout | None = None) -> Any:
    """An array's memory as a tensor, as it is or by a layout."""
    torch = torch_module()
    dtype = _extension_type(array.dtype)
    if dtype is None:
        tensor = torch.from_numpy(array)
    else:
        bits = array.view(integer_of_size(dtype.bits).numpy)
        tensor = torch.from_numpy(bits).view(getattr(torch, dtype.numpy.name))
    return tensor if layout is None else tensor.as_strided(*layout)
