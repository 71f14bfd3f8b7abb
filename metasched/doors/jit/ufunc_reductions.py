"""Reductions by ufuncs, such as `np.add.reduce`: by functions of whole arrays, or of halves of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.functions.movement import axes_of
from metasched.doors.jit.promotion import resolve_types
from metasched.graph.errors import Unsupported
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

NAMED: Mapping[str, str] = MappingProxyType({"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"})
_TRUTH: Mapping[str, str] = MappingProxyType({"logical_and": "all", "logical_or": "any"})
_OF_HALVES = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "fmax", "fmin", "hypot"})
_SUMS = frozenset({"add", "multiply"})


@dataclass(frozen=True)
class _Reduction:
    """What the `reduce` of a ufunc is given; `initial` is None where it is not."""

    ufunc: np.ufunc
    array: Any
    axis: Any
    keepdims: bool
    initial: Any
    where: Any

    def begin(self, found: Any) -> Any:
        """A result with what the reduction begins with."""
        return found if self.initial is None else self.ufunc(found, self.initial)

    def fill(self, neutral: Any) -> Any:
        """The operand with what changes no result in place of the elements that do not take part."""
        return self.array if self.where is True else np.where(self.where, self.array, self.typed(neutral))

    def typed(self, neutral: Any) -> Any:
        """A number in the type of the operand: the identity of `bitwise_and` is -1, also without a sign."""
        return np.array(neutral).astype(self.array.dtype)


def reduce_by(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """The reduction of an array by a ufunc. Raises TraceError and Unsupported."""
    given = _Reduction(ufunc, array, axis, keepdims, initial, where)
    if ufunc.__name__ in NAMED:
        return _reduce_by_name(given, dtype)
    if ufunc.__name__ in _TRUTH:
        return given.begin(getattr(np, _TRUTH[ufunc.__name__])(array, axis=axis, keepdims=keepdims, where=where))
    if ufunc is np.logical_xor:
        counted = np.count_nonzero(given.fill(0), axis=axis, keepdims=keepdims)
        return given.begin(np.equal(np.remainder(counted, 2), 1))
    (own, _), _ = resolve_types(ufunc, (np.dtype(array.dtype if dtype is None else dtype),) * 2)
    typed = replace(given, array=array.astype(own.numpy))
    if ufunc is np.logaddexp:
        return typed.begin(_sum_of_exponentials(typed))
    if ufunc.__name__ in _OF_HALVES:
        return typed.begin(_reduce_halves(typed))
    names = listing((*NAMED, *_TRUTH, "logical_xor", "logaddexp", *sorted(_OF_HALVES)))
    raise TraceError(
        f"np.{ufunc.__name__}.reduce cannot be traced", f"that of {names} can; write it by functions of whole arrays"
    )


def _reduce_by_name(given: _Reduction, dtype: Any) -> Any:
    name, array = given.ufunc.__name__, given.array
    options = {} if given.initial is None else {"initial": given.initial}
    if name in _SUMS:
        options["dtype"] = dtype
    elif dtype is not None:
        array = array.astype(dtype)
    return getattr(np, NAMED[name])(array, axis=given.axis, keepdims=given.keepdims, where=given.where, **options)


def _sum_of_exponentials(given: _Reduction) -> Any:
    array = given.fill(-np.inf)
    largest = np.max(array, axis=given.axis, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, np.zeros_like(largest))
    total = np.log(np.sum(np.exp(np.subtract(array, largest)), axis=given.axis, keepdims=True))
    found = np.add(total, largest)
    return found if given.keepdims else np.squeeze(found, given.axis)


def _reduce_halves(given: _Reduction) -> Any:
    """Halves of each row are taken together, and those of the result: the order does not matter to such a ufunc."""
    rank = np.ndim(given.array)
    axes = tuple(range(rank)) if given.axis is None else axes_of(given.axis, rank)
    neutral = given.ufunc.identity if given.initial is None else given.initial
    if neutral is None and given.where is not True:
        raise Unsupported(f"np.{given.ufunc.__name__}.reduce with `where` has no identity: it takes `initial`, too")
    moved = np.moveaxis(given.fill(neutral), axes, range(len(axes)))
    count, rest = math.prod(moved.shape[: len(axes)]), moved.shape[len(axes) :]
    if not count and neutral is None:
        raise Unsupported(f"np.{given.ufunc.__name__}.reduce of no elements has no identity")
    rows = np.reshape(moved, (count, *rest)) if count else np.full_like(moved, given.typed(neutral), shape=(1, *rest))
    found, others = rows, []
    while len(found) > 1:
        half = len(found) // 2
        others += [found[-1]] * (len(found) % 2)
        found = given.ufunc(found[:half], found[half : 2 * half])
    found = found[0]
    for other in others:
        found = given.ufunc(found, other)
    return np.expand_dims(found, axes) if given.keepdims else found
