"""Products of matrices and tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.elementwise import apply_ufunc
from metasched.doors.jit.functions.movement import axis_of
from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.graph.errors import Unsupported


@traces("einsum")
def einsum(
    trace: ArrayTrace,
    *operands: Any,
    out: None = None,
    dtype: Any = None,
    optimize: Any = False,
    order: str = "K",
    casting: str = "safe",
) -> Any:
    if not operands or not isinstance(operands[0], str):
        raise Unsupported("np.einsum is traced with its subscripts as a text")
    equation, *given = operands
    values = [trace.value(a) for a in given]
    wanted = language_type(np.result_type(*(x.type.dtype.numpy for x in values)) if dtype is None else dtype)
    if wanted.is_bool:
        raise Unsupported("np.einsum of bools has no form in the language")
    return trace.nodes.call("Einsum", *(trace.nodes.cast(x, wanted) for x in values), equation=equation)


@traces("dot")
def dot(trace: ArrayTrace, a: Any, b: Any, out: None = None) -> Any:
    left, right = np.ndim(a), np.ndim(b)
    if not left or not right:
        return _scaled(trace, a, b)
    if right <= 2:
        return apply_ufunc(trace, np.matmul, (a, b))
    return np.tensordot(a, b, axes=((left - 1,), (right - 2,)))


def _scaled(trace: ArrayTrace, a: Any, b: Any) -> Any:
    """By a number: here NumPy takes Python's numbers for arrays, whose types are not weak."""
    return apply_ufunc(trace, np.multiply, [x if isinstance(x, TracedOperand) else np.asarray(x) for x in (a, b)])


@traces("inner")
def inner(trace: ArrayTrace, a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return _scaled(trace, a, b)
    return np.tensordot(a, b, axes=((-1,), (-1,)))


@traces("vdot")
def vdot(trace: ArrayTrace, a: Any, b: Any) -> Any:
    return np.matmul(np.ravel(a), np.ravel(b))


@traces("linalg.matmul")
def matmul(trace: ArrayTrace, x1: Any, x2: Any, /) -> Any:
    return apply_ufunc(trace, np.matmul, (x1, x2))


@traces("linalg.vecdot")
def vecdot(trace: ArrayTrace, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return np.sum(np.multiply(x1, x2), axis=axis)


@traces("outer", "linalg.outer")
def outer(trace: ArrayTrace, a: Any, b: Any, out: None = None) -> Any:
    return np.multiply(np.reshape(a, (-1, 1)), np.reshape(b, (1, -1)))


@traces("tensordot", "linalg.tensordot")
def tensordot(trace: ArrayTrace, a: Any, b: Any, axes: Any = 2) -> Any:
    shape, other = np.shape(a), np.shape(b)
    if isinstance(axes, int | np.integer):
        first, second = list(range(len(shape) - int(axes), len(shape))), list(range(int(axes)))
    else:
        first, second = (_axes(given, s) for given, s in zip(axes, (shape, other), strict=True))
    if [shape[n] for n in first] != [other[n] for n in second]:
        raise Unsupported("shape-mismatch for sum")
    kept = [n for n in range(len(shape)) if n not in first]
    left = [n for n in range(len(other)) if n not in second]
    depth = math.prod(shape[n] for n in first)
    rows, columns = [shape[n] for n in kept], [other[n] for n in left]
    x = np.reshape(np.transpose(a, [*kept, *first]), (math.prod(rows), depth))
    y = np.reshape(np.transpose(b, [*second, *left]), (depth, math.prod(columns)))
    return np.reshape(np.matmul(x, y), (*rows, *columns))


def _axes(given: Any, shape: Sequence[int]) -> list[int]:
    axes: list[Any] = [given] if isinstance(given, int | np.integer) else list(given)
    return [axis_of(axis, len(shape)) for axis in axes]
