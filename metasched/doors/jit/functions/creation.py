"""New arrays: NumPy asks a traced one by `like=`, as in `np.zeros(shape, like=x)`, and they can be written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace, TracedOperand, common_numpy_type
from metasched.doors.jit.views import make_array
from metasched.graph.errors import Unsupported


def _constant_array(trace: ArrayTrace, array: Any) -> Any:
    """A known array that is written as a traced one."""
    return make_array(trace, trace.nodes.constant("constant", np.array(array)))


@traces("zeros_like", "empty_like")
def zeros_like(trace: ArrayTrace, a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    return _fill_like(trace, a, dtype, shape, 0)


@traces("ones_like")
def ones_like(trace: ArrayTrace, a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    return _fill_like(trace, a, dtype, shape, 1)


@traces("full_like")
def full_like(trace: ArrayTrace, a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    return _fill_like(trace, a, dtype, shape, fill_value)


def _fill_like(trace: ArrayTrace, a: Any, dtype: Any, shape: Any, value: Any) -> Any:
    like = trace.value(a)
    wanted, kind = like.shape if shape is None else shape, like.type.dtype.numpy if dtype is None else dtype
    return full(trace, wanted, value, kind)


@traces("full")
def full(trace: ArrayTrace, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    if not isinstance(fill_value, TracedOperand):
        return _constant_array(trace, np.full(shape, fill_value, dtype))
    given: Any = fill_value
    return np.copy(np.broadcast_to(given if dtype is None else given.astype(dtype), shape))


@traces("zeros", "empty")
def zeros(trace: ArrayTrace, shape: Any, dtype: Any = float, order: str = "C") -> Any:
    return _constant_array(trace, np.zeros(shape, dtype))


@traces("ones")
def ones(trace: ArrayTrace, shape: Any, dtype: Any = None, order: str = "C") -> Any:
    return _constant_array(trace, np.ones(shape, dtype))


@traces("arange")
def arange(trace: ArrayTrace, *bounds: Any, dtype: Any = None) -> Any:
    return _constant_array(trace, np.arange(*bounds, dtype=dtype))


@traces("eye")
def eye(trace: ArrayTrace, N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C") -> Any:  # noqa: N803 -- NumPy's names
    return _constant_array(trace, np.eye(N, M, k, dtype))


@traces("identity")
def identity(trace: ArrayTrace, n: int, dtype: Any = None) -> Any:
    return _constant_array(trace, np.identity(n, dtype))


@traces("tri")
def tri(trace: ArrayTrace, N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:  # noqa: N803
    return _constant_array(trace, np.tri(N, M, k, dtype))


@traces("array")
def array(trace: ArrayTrace, object: Any, dtype: Any = None, **options: Any) -> Any:  # noqa: A002 -- NumPy's name
    made = trace.array(trace.value(object)) if isinstance(object, TracedOperand) else _stack_lists(trace, object)
    return make_array(trace, trace.value(made, None if dtype is None else language_type(dtype)))


def _stack_lists(trace: ArrayTrace, given: Any) -> Any:
    """An array of nested lists, of which some parts are traced."""
    if isinstance(given, TracedOperand):
        return given
    if not isinstance(given, list | tuple) or not _has_operands(given):
        return _constant_array(trace, np.array(given))
    return np.stack([_stack_lists(trace, part) for part in given])


def _has_operands(given: Sequence[Any]) -> bool:
    return any(
        isinstance(part, TracedOperand) or (isinstance(part, list | tuple) and _has_operands(part)) for part in given
    )


@traces("linspace")
def linspace(
    trace: ArrayTrace,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Numbers at equal steps between two that are data."""
    divisions = num - 1 if endpoint else num
    kind = np.result_type(common_numpy_type((start, stop)), 1.0)
    start, stop = (trace.array(trace.value(bound, language_type(kind))) for bound in (start, stop))
    step = np.divide(np.subtract(stop, start), max(divisions, 1))
    places = np.reshape(np.arange(num, dtype=step.dtype), (num, *(1,) * step.ndim))
    made = np.add(np.multiply(places, step), start)
    if endpoint and num > 1:
        made = np.concatenate([made[:-1], np.broadcast_to(stop, step.shape)[None].astype(made.dtype)], 0)
    made = np.moveaxis(made, 0, axis)
    if dtype is not None:
        made = (np.floor(made) if np.issubdtype(dtype, np.integer) else made).astype(dtype)
    return (made, step if divisions > 0 else np.nan) if retstep else made


@traces("logspace")
def logspace(
    trace: ArrayTrace,
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Powers of a base, whose exponents are at equal steps."""
    if np.ndim(base):
        raise Unsupported(f"np.logspace of one base can be traced, and this is an array of {np.shape(base)}")
    made = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return made if dtype is None else made.astype(dtype)


@traces("meshgrid")
def meshgrid(trace: ArrayTrace, *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    count = len(xi)
    made = [np.reshape(x, (*(1,) * n, -1, *(1,) * (count - n - 1))) for n, x in enumerate(xi)]
    if indexing == "xy" and count > 1:
        made = [np.swapaxes(x, 0, 1) for x in made]
    made = made if sparse else list(np.broadcast_arrays(*made))
    return tuple(np.copy(x) for x in made) if copy else tuple(made)


@traces("diag")
def diag(trace: ArrayTrace, v: Any, k: int = 0) -> Any:
    if np.ndim(v) == 2:
        return np.diagonal(v, k)
    size = np.shape(v)[0]
    first = np.pad(v, (max(k, 0), max(-k, 0)))
    side = size + abs(k)
    rows = np.arange(side)
    return np.where(rows[:, None] + k == rows, first, np.zeros((), first.dtype))


@traces("diagflat")
def diagflat(trace: ArrayTrace, v: Any, k: int = 0) -> Any:
    return diag(trace, np.ravel(v), k)


@traces("vander")
def vander(trace: ArrayTrace, x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    count = np.shape(x)[0] if N is None else N
    base = x.astype(np.promote_types(x.dtype, int))
    powers = [np.ones_like(base)]
    for _ in range(count - 1):
        powers.append(np.multiply(powers[-1], base))
    return np.stack(powers if increasing else powers[::-1], axis=1)[:, :count]


@traces("fill_diagonal")
def fill_diagonal(trace: ArrayTrace, a: Any, val: Any, wrap: bool = False) -> None:
    """Set the elements on the diagonal, in place; in a tall matrix with `wrap`, it goes on below an empty row."""
    shape = np.shape(a)
    if wrap and len(shape) == 2:
        places = divmod(np.arange(0, math.prod(shape), shape[1] + 1), shape[1])
    else:
        places = (np.arange(min(shape)),) * len(shape)
    a[places] = val
