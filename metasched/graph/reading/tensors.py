"""Arrays of a model's file.

Their sizes are checked before memory is taken, and external data is read from the model's own folder only.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import takewhile
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.graph.errors import NetworkError, Unsupported
from metasched.graph.ir import Array
from metasched.graph.reading.mapped_files import LEAST_BYTES, MappedFile, mapped_array
from metasched.graph.value_type import ValueType
from metasched.support.imports import imports

# How ONNX's names of element types begin, by how ours do; the bits follow. Two have names without their bits.
_BEGINNINGS: Mapping[str, str] = MappingProxyType(
    {"i": "INT", "u": "UINT", "f": "FLOAT", "bf": "BFLOAT", "bool": "BOOL"}
)
_WITHOUT_BITS: Mapping[DType, str] = MappingProxyType({DType.F32: "FLOAT", DType.F64: "DOUBLE"})
_EXTERNAL = 1
# The fields of TensorProto for elements of types that have one of their own.
_FIELDS: Mapping[DType, str] = MappingProxyType(
    {
        DType.F32: "float_data",
        DType.F64: "double_data",
        DType.I64: "int64_data",
    }
)
_UNSIGNED_FIELD = "uint64_data"  # of 32 bits and more
_OTHER_FIELD = "int32_data"
# Types of few bits by ONNX's names: what holds their numbers one by one, and their bits.
_FEW_BIT_TYPES: Mapping[str, tuple[DType, int]] = MappingProxyType(
    {
        "int4": (DType.I8, 4),
        "uint4": (DType.U8, 4),
        "int2": (DType.I8, 2),
        "uint2": (DType.U8, 2),
        "float4e2m1": (DType.F4E2M1, 4),
    }
)


def element_type(number: int) -> DType:
    """The element type by ONNX's number of it. Raises Unsupported for one that the language lacks."""
    name = _name(number)
    found = _types().get(name)
    if found is None:
        raise Unsupported(f"the language has no element type {name}")
    return found


def number_of(dtype: DType) -> int:
    """ONNX's number of an element type, in TensorProto.DataType."""
    return int(imports.module("onnx").TensorProto.DataType.Value(_name_of(dtype)))


def _name_of(dtype: DType) -> str:
    """ONNX's name of an element type, of which an older release may know nothing."""
    beginning = "".join(takewhile(str.isalpha, dtype.value))
    return _WITHOUT_BITS.get(dtype) or _BEGINNINGS[beginning] + dtype.value.removeprefix(beginning).upper()


def _field(dtype: DType) -> str:
    """The field of TensorProto that holds elements of a type, where they are not raw bytes."""
    if dtype.is_unsigned and dtype.bits >= DType.I32.bits:
        return _UNSIGNED_FIELD
    return _FIELDS.get(dtype, _OTHER_FIELD)


@cache
def _types() -> Mapping[str, DType]:
    """The element types by ONNX's names of them, as `_name` gives these."""
    return MappingProxyType({_name_of(dtype).lower(): dtype for dtype in DType})


@lru_cache(maxsize=64)
def _name(number: int) -> str:
    """ONNX's name of an element type by its number: asked for each tensor of a model, and slow to find out."""
    types = imports.module("onnx").TensorProto.DataType
    return str(types.Name(number)).lower() if number in types.values() else f"number {number}"


def tensor_type(tensor: Any) -> ValueType:
    """The type of a TensorProto. Raises Unsupported, or NetworkError for a shape that there cannot be."""
    shape = tuple(int(extent) for extent in tensor.dims)
    if any(extent < 0 for extent in shape):
        raise NetworkError(f"the tensor `{tensor.name}` has the shape {shape}")
    return ValueType(element_type(tensor.data_type), shape)


def few_bit_type(tensor: Any) -> tuple[DType, int] | None:
    """The type that holds the numbers of a TensorProto of fewer than 8 bits each, and how many; None for others."""
    beginning, bits = _FEW_BIT_TYPES.get(_name(tensor.data_type), (None, 0))
    return None if beginning is None else (beginning, bits)


def packed_bytes(tensor: Any, folder: Path | None, content: MappedFile | None = None) -> Array:
    """The bytes of a TensorProto of a `few_bit_type`, as of `array_of`: the first number is in the lowest bits."""
    found = few_bit_type(tensor)
    assert found is not None, tensor.name
    count = -(-prod(int(extent) for extent in tensor.dims) * found[1] // 8)
    type_ = ValueType(DType.U8, (count,))
    if tensor.data_location == _EXTERNAL:
        return _external(tensor, type_, folder)
    if not tensor.HasField("raw_data"):
        return np.array(tensor.int32_data, np.int32).astype(np.uint8)
    data = _raw_data(tensor, content)
    if len(data) != count:
        raise NetworkError(f"the tensor `{tensor.name}` has {len(data)} bytes, and its shape takes {count}")
    return _raw(data, type_)


def array_of(tensor: Any, folder: Path | None, content: MappedFile | None = None) -> tuple[ValueType, Array]:
    """The elements of a TensorProto; external data lies in `folder`. Raises Unsupported and NetworkError.

    A large array is read-only pages of its file: of `content`, which is the model's, or of the external data's.
    """
    type_ = tensor_type(tensor)
    if tensor.data_location == _EXTERNAL:
        return type_, _external(tensor, type_, folder)
    if tensor.HasField("raw_data"):
        data = _raw_data(tensor, content)
        if len(data) != type_.nbytes:
            raise NetworkError(f"the tensor `{tensor.name}` has {len(data)} bytes, and {type_} takes {type_.nbytes}")
        return type_, _raw(data, type_)
    values = getattr(tensor, _field(type_.dtype))
    if len(values) != type_.size:
        raise NetworkError(f"the tensor `{tensor.name}` has {len(values)} elements, and {type_} has {type_.size}")
    if type_.dtype.is_storage:
        bits = np.array(values, np.int32).astype(type_.dtype.bit_pattern)
        return type_, bits.view(type_.dtype.numpy).reshape(type_.shape)
    return type_, np.array(values, type_.dtype.numpy).reshape(type_.shape)


def _raw_data(tensor: Any, content: MappedFile | None) -> bytes | Array:
    """The elements of a TensorProto as bytes: pages of the model's file where they are many."""
    data: bytes = tensor.raw_data
    in_file = None if content is None else content.weights(data)
    return data if in_file is None else in_file


def _raw(data: bytes | Array, type_: ValueType) -> Array:
    if isinstance(data, bytes):
        return np.frombuffer(data, _little(type_.dtype)).astype(type_.dtype.numpy).reshape(type_.shape)
    return _to_native_order(data.view(_little(type_.dtype)), type_)


def _to_native_order(found: Array, type_: ValueType) -> Array:
    """An array of a file, copied only where this machine has another order of bytes."""
    return found.astype(type_.dtype.numpy, copy=False).reshape(type_.shape)


def _little(dtype: DType) -> np.dtype[Any]:
    """The type as the file has it: little-endian."""
    return dtype.numpy.newbyteorder("<") if dtype.is_of_numpy else dtype.numpy


def _external(tensor: Any, type_: ValueType, folder: Path | None) -> Array:
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    if folder is None:
        raise NetworkError(
            f"the tensor `{tensor.name}` is in the file {location!r}, and the model is of no folder: "
            "load it by its path"
        )
    path = _require_file_inside(folder, location, tensor.name)
    try:
        offset, length = int(said.get("offset", 0)), int(said.get("length", type_.nbytes))
    except ValueError as error:
        raise NetworkError(f"the tensor `{tensor.name}` is at no place in {location}: {error}") from error
    have = path.stat().st_size
    if length != type_.nbytes or offset < 0 or offset + length > have:
        raise NetworkError(
            f"the tensor `{tensor.name}` is {length} bytes at {offset} of {location}, which has {have}; "
            f"{type_} takes {type_.nbytes}"
        )
    if not type_.size:
        return np.empty(type_.shape, type_.dtype.numpy)
    if type_.nbytes >= LEAST_BYTES:
        return _to_native_order(mapped_array(path, _little(type_.dtype), type_.size, offset), type_)
    return _to_native_order(np.fromfile(path, _little(type_.dtype), type_.size, offset=offset), type_)


def _require_file_inside(folder: Path, location: str, name: str) -> Path:
    """The file of external data. Raises NetworkError unless it is a plain file inside the folder, links followed."""
    given = Path(location)
    message = f"the tensor `{name}` is in {location!r}: external data is read from the model's folder only"
    if not location or given.is_absolute() or ".." in given.parts or "\\" in location or "\0" in location:
        raise NetworkError(message)
    path = folder / given
    try:
        found = path.resolve(strict=True)
        plain = stat.S_ISREG(found.stat().st_mode)
    except OSError as error:
        raise NetworkError(f"the tensor `{name}` is in {location!r}, which cannot be read: {error}") from error
    if not plain or not found.is_relative_to(folder.resolve()):
        raise NetworkError(message)
    return found
