"""Products of matrices and tensors."""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.elementwise import apply_ufunc
from metasched.doors.jit.functions.movement import axis_of
from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.jit.views import ReadOnlyView, make_view
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
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
    equation, *given = operands if isinstance(operands[0], str) else _einsum_text(operands)
    values = [trace.value(a) for a in given]
    wanted = language_type(np.result_type(*(x.type.dtype.numpy for x in values)) if dtype is None else dtype)
    if len(given) == 1 and wanted is values[0].type.dtype and _sums_nothing(equation):
        return _view_by_einsum(trace, given[0], equation)
    counted = DType.I32 if wanted.is_bool else wanted
    made = trace.nodes.call("Einsum", *(trace.nodes.cast(x, counted) for x in values), equation=equation)
    return trace.nodes.cast(made, wanted)


def _sums_nothing(equation: str) -> bool:
    """Whether each dimension of its one operand is one of the result: then NumPy gives a view."""
    operand, arrow, result = equation.replace(" ", "").replace("...", "").partition("->")
    return set(operand) == set(result) if arrow else len(set(operand)) == len(operand)


def _view_by_einsum(trace: ArrayTrace, a: Any, equation: str) -> Any:
    """The dimensions in another order; a diagonal, which is not written."""
    axes = np.einsum(equation, np.empty([2] * np.ndim(a), np.int8)).strides
    if len(axes) == np.ndim(a):
        return np.transpose(a, [np.ndim(a) - stride.bit_length() for stride in axes])

    def elements(own: ArrayTrace, whole: GraphValue) -> GraphValue:
        return own.nodes.call("Einsum", whole, equation=equation)

    return make_view(trace, a, ReadOnlyView(elements, lambda whole: np.einsum(equation, whole)))


def _einsum_text(operands: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of `einsum(a, [0, 1], b, [1, 2], [0, 2])` with the subscripts as a text."""

    def letters(entries: Sequence[Any]) -> str:
        return "".join("..." if entry is Ellipsis else string.ascii_letters[entry] for entry in entries)

    arrays, texts = operands[: len(operands) // 2 * 2 : 2], [letters(entries) for entries in operands[1::2]]
    result = f"->{letters(operands[-1])}" if len(operands) % 2 else ""
    return f"{','.join(texts)}{result}", *arrays


@traces("dot")
def dot(trace: ArrayTrace, a: Any, b: Any, out: None = None) -> Any:
    left, right = np.ndim(a), np.ndim(b)
    if not left or not right:
        return _multiply_by_number(trace, a, b)
    if right <= 2:
        return apply_ufunc(trace, np.matmul, (a, b))
    return np.tensordot(a, b, axes=((left - 1,), (right - 2,)))


def _multiply_by_number(trace: ArrayTrace, a: Any, b: Any) -> Any:
    """A product with a number: here NumPy takes Python's numbers for arrays, whose types are not weak."""
    return apply_ufunc(trace, np.multiply, [x if isinstance(x, TracedOperand) else np.asarray(x) for x in (a, b)])


@traces("inner")
def inner(trace: ArrayTrace, a: Any, b: Any) -> Any:
    if not np.ndim(a) or not np.ndim(b):
        return _multiply_by_number(trace, a, b)
    return np.tensordot(a, b, axes=((-1,), (-1,)))


@traces("vdot")
def vdot(trace: ArrayTrace, a: Any, b: Any) -> Any:
    return np.matmul(np.ravel(a), np.ravel(b))


@traces("linalg.matmul")
def matmul(trace: ArrayTrace, x1: Any, x2: Any, /) -> Any:
    return apply_ufunc(trace, np.matmul, (x1, x2))


@traces("linalg.vecdot")
def vecdot(trace: ArrayTrace, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return np.vecdot(np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1))


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


@traces("kron")
def kron(trace: ArrayTrace, a: Any, b: Any) -> Any:
    rank = max(np.ndim(a), np.ndim(b))
    left, right = ((*(1,) * (rank - np.ndim(x)), *np.shape(x)) for x in (a, b))
    x = np.reshape(a, [n for extent in left for n in (extent, 1)])
    y = np.reshape(b, [n for extent in right for n in (1, extent)])
    return np.reshape(np.multiply(x, y), [n * m for n, m in zip(left, right, strict=True)])


@traces("cross", "linalg.cross")
def cross(
    trace: ArrayTrace, a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise Unsupported("np.cross is of vectors of three elements")
    parts = [
        np.subtract(np.multiply(x[..., m], y[..., n]), np.multiply(x[..., n], y[..., m]))
        for m, n in ((1, 2), (2, 0), (0, 1))
    ]
    return np.moveaxis(np.stack(parts, axis=-1), -1, axisc)


@traces("linalg.multi_dot")
def multi_dot(trace: ArrayTrace, arrays: Any, *, out: None = None) -> Any:
    """The product of all matrices, in an order that takes few multiplications, as NumPy's."""
    given = list(arrays)
    while len(given) > 1:
        sizes = [np.size(a) * np.shape(b)[-1] for a, b in itertools.pairwise(given)]
        place = int(np.argmin(sizes)) if np.ndim(given[0]) == 2 and np.ndim(given[-1]) == 2 else 0
        given[place : place + 2] = [np.matmul(given[place], given[place + 1])]
    return given[0]


@traces("linalg.matrix_power")
def matrix_power(trace: ArrayTrace, a: Any, n: int) -> Any:
    """The power of a matrix, by squaring."""
    if n < 0:
        raise Unsupported("a negative power is of an inverse")
    if n == 0:
        return np.broadcast_to(np.eye(np.shape(a)[-1], dtype=a.dtype), np.shape(a))
    found, square, left = None, a, n
    while left:
        if left % 2:
            found = square if found is None else np.matmul(found, square)
        left //= 2
        square = np.matmul(square, square) if left else square
    return found
