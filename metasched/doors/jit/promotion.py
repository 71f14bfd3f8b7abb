"""Element types of NumPy, and those that its functions give: NumPy itself is asked (NEP 50)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from metasched.dtypes import DType, integer_range
from metasched.graph.errors import Unsupported

_TYPES_BY_NUMPY = {dtype.numpy: dtype for dtype in DType}


def language_type(dtype: Any) -> DType:
    """The language's element type of one of NumPy's. Raises Unsupported where it has none."""
    wanted = np.dtype(dtype)
    found = _TYPES_BY_NUMPY.get(wanted)
    if found is None:
        raise Unsupported(f"the language has no element type {wanted}; those it has are {', '.join(map(str, DType))}")
    return found


def resolve_types(ufunc: np.ufunc, operands: tuple[Any, ...], dtype: Any = None) -> tuple[tuple[DType, ...], DType]:
    """The types in which a ufunc takes its operands, and that of its result.

    `operands` are NumPy's types; Python's `int`, `float` and `bool` stand for numbers whose type is weak. Raises
    Unsupported where NumPy has no such loop, or the language no such type.
    """
    options: dict[str, Any] = {} if dtype is None else {"signature": (*(None,) * ufunc.nin, np.dtype(dtype))}
    given = tuple(np.dtype(bool) if operand is bool else operand for operand in operands)
    try:
        found = ufunc.resolve_dtypes((*given, *(None,) * ufunc.nout), **options)
    except TypeError as error:
        raise Unsupported(str(error)) from error
    return tuple(language_type(d) for d in found[: ufunc.nin]), language_type(found[ufunc.nin])


def type_given_by(function: Callable[..., Any], dtype: DType) -> DType:
    """The type of what a function of NumPy makes of an array of a type. Raises Unsupported."""
    return language_type(_type_given_by(function, dtype))


@cache
def _type_given_by(function: Callable[..., Any], dtype: DType) -> np.dtype[Any]:
    made: np.dtype[Any] = function(np.ones(1, dtype.numpy)).dtype
    return made


def weak_type(value: Any) -> Any:
    """What stands for an operand in `resolve_types`: NumPy's type, or that of a Python number."""
    if type(value) in (int, float, bool):
        return type(value)
    return value.dtype


def limit_of(dtype: DType, *, largest: bool) -> float:
    """The largest or the smallest value of a type."""
    if dtype.is_float:
        return dtype.highest if largest else dtype.lowest
    if dtype.is_bool:
        return largest
    return integer_range(dtype)[1 if largest else 0]
