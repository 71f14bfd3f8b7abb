"""Sizes that data decide, in values that models compute shapes of: what is known of each of their elements.

`Shape` of a value with a size that only a call knows gives such a value. What nodes make of it by moving elements, and
by sums, products, minima and comparisons, is known here element by element, so that it can decide a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.node_helpers.moved_elements import elements_of
from metasched.graph.node_helpers.repeated_elements import booleans_behind, tally_of
from metasched.graph.reading.tensors import element_type
from metasched.graph.site import NodeSite
from metasched.graph.text import number
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Size: TypeAlias = int | DataSize
# The node type by which models say how many booleans hold.
_TALLY_NODE_TYPE = "ReduceSum"
# What a comparison gives that only a call knows.
_OPEN = None


def sizes_of(x: GraphValue) -> tuple[Size, ...]:
    """The shape of a value."""
    return tuple(
        DataSize(x.count.number, n) if x.count is not None and x.count.axis == axis else n
        for axis, n in enumerate(x.shape)
    )


def room_of(sizes: Sequence[Size]) -> tuple[int, ...]:
    """The shape that has room for all that there may be."""
    return tuple(size.most if isinstance(size, DataSize) else size for size in sizes)


def sizes_of_input(site: NodeSite, number: int, what: str) -> tuple[Size, ...]:
    """The elements of an input that decides shapes. Raises Unsupported where they are data, and no sizes."""
    operand = site.operand(number)
    if operand.sizes is not None:
        return tuple(operand.sizes.reshape(-1))
    return site.integers(number, what)


def count_in(sizes: Sequence[Size]) -> ValueCount | None:
    """The dimension of a shape that data decide, if there is one. Raises Unsupported for more of them."""
    found = [axis for axis, size in enumerate(sizes) if isinstance(size, DataSize)]
    if len(found) > 1:
        raise Unsupported(f"data decide how many elements there are along its dimensions {found[0]} and {found[1]}")
    return next((ValueCount(size.number, axis) for axis in found if isinstance(size := sizes[axis], DataSize)), None)


def number_of(site: NodeSite, size: Size) -> GraphValue:
    """The value that says a size, one i64."""
    return site.view(size.number, ()) if isinstance(size, DataSize) else site.constant(np.array(size, np.int64))


def set_count(site: NodeSite, value: GraphValue, count: ValueCount) -> GraphValue:
    """A value of which there are so many elements along a dimension. It is no constant: what is computed of one at
    load has no such size.
    """
    if value.constant is None:
        return replace(value, count=count)
    zero = str(number(0, value.type.dtype))
    return replace(fill_absent(site, replace(value, count=count), zero), count=count)


def multiply_number(site: NodeSite, number: GraphValue, factor: int) -> GraphValue:
    """So many times a number of elements."""
    made = site.elementwise(f"{{0}} * {factor}", site.view(number, ()))
    tally = None if number.tally is None else replace(number.tally, times=number.tally.times * factor)
    return replace(made, tally=tally)


def array_of(sizes: Sequence[Any], shape: tuple[int, ...]) -> Array:
    """An array of sizes, in a shape."""
    made = np.empty(prod(shape), object)
    made[:] = sizes
    return made.reshape(shape)


def value_of_sizes(site: NodeSite, sizes: Array, dtype: DType = DType.I64) -> GraphValue:
    """The value that has such elements, an array of numbers and sizes."""
    flat: list[Size] = list(sizes.reshape(-1))
    if not any(isinstance(size, DataSize) for size in flat):
        return site.constant(np.array(sizes, dtype.numpy), dtype)
    if len(flat) == 1 and isinstance(flat[0], DataSize):
        made = site.view(flat[0].number, sizes.shape)
    else:
        numbers = {f"N{n}": site.view(x.number, ()) for n, x in enumerate(flat) if isinstance(x, DataSize)}
        texts = [f"N{n}[]" if isinstance(size, DataSize) else str(size) for n, size in enumerate(flat)]
        chosen = "".join(f"{text} if i == {n} else " for n, text in enumerate(texts[:-1])) + texts[-1]
        row = site.single([f"Y[i] = {chosen}"], ValueType(DType.I64, (len(flat),)), **numbers)
        made = site.view(row, sizes.shape)
    return replace(site.cast(made, dtype), sizes=sizes)


def run_on_sizes(site: NodeSite) -> tuple[GraphValue, ...] | None:
    """The outputs of a node whose inputs are sizes; None where nothing is known of them beyond what it computes."""
    rule = _RULES.get(site.op)
    if rule is None:
        return None
    is_of_sizes = any(value is not None and value.sizes is not None for value in site.inputs)
    made = rule(site) if is_of_sizes else _tally_booleans(site) if site.op == _TALLY_NODE_TYPE else None
    return None if made is None else tuple(made)


def _known_elements(value: GraphValue) -> Array | None:
    """The elements of a value, numbers and sizes; None where they are not known."""
    if value.sizes is not None:
        return value.sizes
    if value.constant is None or value.type.dtype.is_float:
        return None
    return value.constant.astype(object)


def _known_operands(site: NodeSite) -> list[Array] | None:
    found = [_known_elements(value) for value in site.operands]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


_Rule: TypeAlias = Callable[[NodeSite], "list[GraphValue] | None"]


def _movement_rule(move: Callable[[NodeSite, Array], Sequence[Array]]) -> _Rule:
    """The rule of nodes that move elements of their first input, or some of them."""

    def rule(site: NodeSite) -> list[GraphValue] | None:
        x = site.operand(0)
        if x.sizes is None or any(one is not None and one.constant is None for one in site.inputs[1:]):
            return None
        return [value_of_sizes(site, np.asarray(made, object), x.type.dtype) for made in move(site, x.sizes)]

    return rule


def _gather_sizes(site: NodeSite, x: Array) -> Sequence[Array]:
    axis = site.axis(int(site.attribute("axis", 0)), x.ndim)
    index = site.require_known(1, "indices").astype(np.int64)
    if np.any(index < -x.shape[axis]) or np.any(index >= x.shape[axis]):
        raise Unsupported(f"an index is beyond the {x.shape[axis]} elements of a shape")
    return [np.array(x.take(index, axis), object)]


def _slice_sizes(site: NodeSite, x: Array) -> Sequence[Array]:
    starts, ends = site.integers(1, "starts"), site.integers(2, "ends")
    given = range(len(starts)) if site.optional(3) is None else site.integers(3, "axes")
    steps = (1,) * len(starts) if site.optional(4) is None else site.integers(4, "steps")
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(site.axes(given, x.ndim), starts, ends, steps, strict=True):
        parts[axis] = elements_of(start, end, step, x.shape[axis])
    return [x[tuple(parts)]]


def _squeeze_sizes(site: NodeSite, x: Array) -> Sequence[Array]:
    axes = range(x.ndim) if site.optional(1) is None else site.axes(site.integers(1, "axes"), x.ndim)
    return [x.reshape([n for axis, n in enumerate(x.shape) if n != 1 or axis not in axes])]


def _unsqueeze_sizes(site: NodeSite, x: Array) -> Sequence[Array]:
    given = site.integers(1, "axes")
    axes = site.axes(given, x.ndim + len(given))
    rest = iter(x.shape)
    return [x.reshape([1 if axis in axes else next(rest) for axis in range(x.ndim + len(given))])]


def _reshape_sizes(site: NodeSite, x: Array) -> Sequence[Array]:
    wanted = site.integers(1, "shape")
    if not site.flag("allowzero"):
        wanted = tuple(x.shape[dim] if n == 0 else n for dim, n in enumerate(wanted))
    return [x.reshape(wanted)]


def _concatenate_sizes(site: NodeSite) -> list[GraphValue] | None:
    known = _known_operands(site)
    if known is None:
        return None
    axis = site.axis(site.require_attribute("axis"), known[0].ndim)
    return [value_of_sizes(site, np.concatenate(known, axis), site.operand(0).type.dtype)]


def _cast_sizes(site: NodeSite) -> list[GraphValue] | None:
    x, dtype = site.operand(0), element_type(int(site.require_attribute("to")))
    wide = dtype in (DType.I64, DType.I32)
    return [value_of_sizes(site, x.sizes, dtype)] if wide and x.sizes is not None else None


def _choose_sizes(site: NodeSite) -> list[GraphValue] | None:
    """Elements that a condition chooses, which is known."""
    condition, known = site.operand(0).constant, [_known_elements(value) for value in site.operands[1:]]
    if condition is None or known[0] is None or known[1] is None:
        return None
    made = np.where(condition, known[0], known[1])
    return [value_of_sizes(site, made, site.operand(1).type.dtype)]


# --- sums, products and minima ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Operation:
    """What is computed of two numbers, its text of two that only a call knows, and a number that changes nothing."""

    numbers: Callable[[Any, Any], Any]
    text: str
    neutral: int | None = None


_SUM = _Operation(lambda a, b: a + b, "{0} + {1}", 0)
_PRODUCT = _Operation(lambda a, b: a * b, "{0} * {1}", 1)
_MINIMUM, _MAXIMUM = _Operation(min, "min({0}, {1})"), _Operation(max, "max({0}, {1})", 0)


def _combine_sizes(site: NodeSite, how: _Operation, one: Size, other: Size) -> Size | None:
    """The result of an operation on two sizes; None where it may be less than zero."""
    if not isinstance(one, DataSize) and not isinstance(other, DataSize):
        return int(how.numbers(one, other))
    if any(not isinstance(size, DataSize) and size < 0 for size in (one, other)):
        return None
    for size, rest in ((one, other), (other, one)):
        if size == how.neutral or (how is _MINIMUM and size == rest):
            return rest
        if how is _MINIMUM and not isinstance(size, DataSize) and isinstance(rest, DataSize) and size >= rest.most:
            return rest
        if size == 0 and how in (_PRODUCT, _MINIMUM):
            return 0
    most = how.numbers(*room_of((one, other)))
    numbers = [size for size in (one, other) if isinstance(size, DataSize)]
    fixed = next((size for size in (one, other) if not isinstance(size, DataSize)), None)
    if how is _PRODUCT and fixed is not None:
        return DataSize(multiply_number(site, numbers[0].number, fixed), most)
    texts = ["{0}", "{1}" if fixed is None else str(fixed)]
    text = how.text.format(*texts)
    return DataSize(site.elementwise(text, *(site.view(size.number, ()) for size in numbers)), most)


def least_size(site: NodeSite, one: Size, other: Size) -> Size:
    """The lesser one of two sizes."""
    made = _combine_sizes(site, _MINIMUM, one, other)
    assert made is not None  # sizes are not less than zero
    return made


def _elementwise_rule(how: _Operation) -> _Rule:
    def rule(site: NodeSite) -> list[GraphValue] | None:
        known = _known_operands(site)
        if known is None:
            return None
        made = known[0]
        for other in known[1:]:
            made, other = (np.array(x, object) for x in np.broadcast_arrays(made, other))
            found = [_combine_sizes(site, how, a, b) for a, b in zip(made.reshape(-1), other.reshape(-1), strict=True)]
            if any(size is None for size in found):
                return None
            made = array_of(found, made.shape)
        return [value_of_sizes(site, made, site.operand(0).type.dtype)]

    return rule


def _reduction_rule(how: _Operation) -> _Rule:
    """The rule of nodes that reduce all elements of a row."""

    def rule(site: NodeSite) -> list[GraphValue] | None:
        x, axes = site.operand(0), site.optional(1)
        if x.sizes is None or x.rank != 1 or not x.type.size or (axes is not None and axes.constant is None):
            return None
        if (axes is None or not axes.type.size) and site.flag("noop_with_empty_axes"):
            return None
        total: Size | None = x.sizes[0]
        for size in x.sizes[1:]:
            total = None if total is None else _combine_sizes(site, how, total, size)
        shape = (1,) if site.flag("keepdims", 1) else ()
        return None if total is None else [value_of_sizes(site, array_of([total], shape), x.type.dtype)]

    return rule


def _tally_booleans(site: NodeSite) -> list[GraphValue] | None:
    """How many of some booleans hold, as a sum of them in whole numbers."""
    x, axes = site.operand(0), site.optional(1)
    if x.count is not None or not x.type.size or x.type.dtype not in (DType.I32, DType.I64):
        return None
    if axes is not None and (
        axes.constant is None or len(site.axes(site.integers(1, "axes"), x.rank)) not in (0, x.rank)
    ):
        return None
    booleans = booleans_behind(site.builder, x)
    if booleans is None or ((axes is None or not axes.type.size) and site.flag("noop_with_empty_axes")):
        return None
    n = x.type.size
    row = site.view(x, (n,))
    number_ = site.single([f"Y[] = sum[r0 < {n}](i64(A[r0]))"], ValueType(DType.I64, ()), A=row)
    number_ = replace(number_, tally=tally_of(site.builder, booleans))
    shape = (1,) * x.rank if site.flag("keepdims", 1) else ()
    return [value_of_sizes(site, array_of([DataSize(number_, n)], shape), x.type.dtype)]


def _compare_sizes(site: NodeSite) -> list[GraphValue] | None:
    """Whether sizes are equal, where that is known of all of them: none is less than zero, or more than it may be."""
    known = _known_operands(site)
    if known is None:
        return None
    one, other = np.broadcast_arrays(*known)
    found = [_are_equal(a, b) for a, b in zip(one.reshape(-1), other.reshape(-1), strict=True)]
    if any(each is _OPEN for each in found):
        return None
    return [site.constant(np.array(found, bool).reshape(one.shape), DType.BOOL)]


def _are_equal(one: Size, other: Size) -> bool | None:
    if isinstance(one, DataSize) and isinstance(other, DataSize):
        return True if one.number.name == other.number.name else _OPEN
    if isinstance(one, DataSize) or isinstance(other, DataSize):
        number, size = (other, one) if isinstance(one, DataSize) else (one, other)
        assert isinstance(size, DataSize), size
        assert not isinstance(number, DataSize), number
        return _OPEN if 0 <= number <= size.most else False
    return one == other


_RULES: dict[str, _Rule] = {
    "Add": _elementwise_rule(_SUM),
    "Cast": _cast_sizes,
    "Concat": _concatenate_sizes,
    "Equal": _compare_sizes,
    "Gather": _movement_rule(_gather_sizes),
    "Identity": _movement_rule(lambda _, x: [x]),
    "Max": _elementwise_rule(_MAXIMUM),
    "Min": _elementwise_rule(_MINIMUM),
    "Mul": _elementwise_rule(_PRODUCT),
    "ReduceMax": _reduction_rule(_MAXIMUM),
    "ReduceMin": _reduction_rule(_MINIMUM),
    "ReduceProd": _reduction_rule(_PRODUCT),
    "ReduceSum": _reduction_rule(_SUM),
    "Reshape": _movement_rule(_reshape_sizes),
    "Slice": _movement_rule(_slice_sizes),
    "Squeeze": _movement_rule(_squeeze_sizes),
    "Unsqueeze": _movement_rule(_unsqueeze_sizes),
    "Where": _choose_sizes,
}
