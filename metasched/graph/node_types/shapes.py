"""Shapes: what is known of them at load, and the same elements in other shapes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.size_arithmetic import (
    Size,
    array_of,
    count_in,
    room_of,
    sizes_of,
    sizes_of_input,
    value_of_sizes,
)
from metasched.graph.counted.views import reshape_value
from metasched.graph.errors import Unsupported
from metasched.graph.reading.tensors import element_type
from metasched.graph.registry import RANDOM_NUMBERS_HINT, node_type
from metasched.graph.site import NodeSite, dtype_of
from metasched.graph.text import at, indices, number
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]


@node_type("Identity")
def identity(site: NodeSite) -> Results:
    return (site.value(0),)


@node_type("Dropout")
def dropout(site: NodeSite) -> Results:
    """Nothing is dropped outside of training."""
    x, training = site.operand(0), site.optional(2)
    if training is not None and bool(site.require_known(2, "mode of training").reshape(-1)[0]):
        ratio = site.optional(1)
        if ratio is None or float(site.require_known(1, "ratio").reshape(-1)[0]) != 0:
            raise Unsupported(f"in training, elements are dropped at random, and {RANDOM_NUMBERS_HINT}")
    mask = site.single([f"{at('Y', indices(x.rank))} = True"], ValueType(DType.BOOL, x.shape)) if site.wants(1) else x
    return (x, mask)[: len(site.wanted)]


@node_type("Shape", counts=True)
def shape_of(site: NodeSite) -> Results:
    x = site.operand(0)
    start, end = int(site.attribute("start", 0)), int(site.attribute("end", x.rank))
    sizes = _slice_shape(sizes_of(x), start, end)
    return (value_of_sizes(site, array_of(sizes, (len(sizes),))),)


def _slice_shape(shape: tuple[Size, ...], start: int, end: int) -> tuple[Size, ...]:
    rank = len(shape)
    first, last = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, end))
    return shape[first : max(first, last)]


@node_type("Size", counts=True)
def size_of(site: NodeSite) -> Results:
    x = site.operand(0)
    if x.count is None:
        return (site.constant(np.array(x.type.size, np.int64), DType.I64),)
    others = math.prod(n for axis, n in enumerate(x.shape) if axis != x.count.axis)
    number_ = site.elementwise(f"{{0}} * {others}", site.view(x.count.number, ()))
    return (value_of_sizes(site, array_of([DataSize(number_, x.type.size)], ())),)


@node_type("Constant")
def constant(site: NodeSite) -> Results:
    value = site.attribute("value")
    if value is not None:
        return (site.constant(value),)
    for name, dtype in (("value_float", DType.F32), ("value_floats", DType.F32), ("value_int", DType.I64)):
        if name in site.attributes:
            return (site.constant(np.array(site.attributes[name], dtype.numpy), dtype),)
    if "value_ints" in site.attributes:
        return (site.constant(np.array(site.attributes["value_ints"], np.int64), DType.I64),)
    raise Unsupported("it is a text or a sparse tensor")


@node_type("ConstantOfShape")
def constant_of_shape(site: NodeSite) -> Results:
    sizes = sizes_of_input(site, 0, "shape")
    shape, count = room_of(sizes), count_in(sizes)
    value = site.attribute("value")
    value = np.zeros(1, np.float32) if value is None else value
    dtype = dtype_of(value)
    literal = number(value.reshape(-1)[0].item(), dtype)
    type_, over = ValueType(dtype, shape), indices(len(shape))
    given = {} if literal is not None else {"A": site.constant(value.reshape(()), dtype)}
    text = "A[]" if literal is None else literal
    if count is None:
        return (site.single([f"{at('Y', over)} = {text}"], type_, **given),)
    # What reads how many there are is no constant, and so nobody takes what lies beyond for known.
    there = f"{text} if {over[count.axis]} < S[] else {number(0, dtype)}"
    made = site.single([f"{at('Y', over)} = {there}"], type_, S=site.view(count.number, ()), **given)
    return (replace(made, count=count),)


@node_type("Range")
def range_of(site: NodeSite) -> Results:
    limits = site.operand(1)
    if limits.sizes is not None and isinstance(size := limits.sizes.reshape(-1)[0], DataSize):
        return (_range_up_to(site, size),)
    start, limit, delta = (
        site.require_known(n, what).reshape(-1)[0] for n, what in enumerate(("start", "limit", "delta"))
    )
    if delta == 0:
        raise Unsupported("its delta is 0")
    count = max(math.ceil((float(limit) - float(start)) / float(delta)), 0)
    dtype = site.operand(0).type.dtype
    first, step = number(start.item(), dtype), number(delta.item(), dtype)
    if first is None or step is None:
        raise Unsupported("it starts or steps by what no literal says")
    return (site.single([f"Y[i0] = {first} + {dtype}(i0) * {step}"], ValueType(dtype, (count,))),)


def _range_up_to(site: NodeSite, limit: DataSize) -> GraphValue:
    """The numbers up to a size that data decide."""
    (start,), (delta,) = site.integers(0, "start"), site.integers(2, "delta")
    if delta != 1 or start < 0:
        raise Unsupported(f"it goes from {start} by {delta} up to a size that data decide")
    count = site.elementwise(f"max({{0}} - {start}, 0)", site.view(limit.number, ())) if start else limit.number
    dtype = site.operand(0).type.dtype
    stage = f"Y[i0] = {dtype}(i0) + {start} if i0 < S[] else {dtype}(0)"
    made = site.single([stage], ValueType(dtype, (max(limit.most - start, 0),)), S=site.view(count, ()))
    return replace(made, count=ValueCount(count))


@node_type("EyeLike")
def eye_like(site: NodeSite) -> Results:
    x, k = site.operand(0), int(site.attribute("k", 0))
    if x.rank != 2:
        raise Unsupported(f"its input is {x.type}, and not a matrix")
    to = site.attribute("dtype")
    dtype = x.type.dtype if to is None else element_type(to)
    one, zero = (number(n, dtype) for n in (1, 0))
    return (site.single([f"Y[i0, i1] = {one} if i1 == i0 + {k} else {zero}"], ValueType(dtype, x.shape)),)


@node_type("Reshape", counts=True)
def reshape(site: NodeSite) -> Results:
    x, wanted = site.operand(0), list(sizes_of_input(site, 1, "shape"))
    if not site.flag("allowzero"):
        if any(n == 0 and dim >= x.rank for dim, n in enumerate(wanted)):
            raise Unsupported(f"its shape {room_of(wanted)} takes over a dimension that {x.type} lacks")
        wanted = [sizes_of(x)[dim] if n == 0 else n for dim, n in enumerate(wanted)]
    rooms = list(room_of(wanted))
    if rooms.count(-1) > 1 or min(rooms, default=0) < -1:
        raise Unsupported(f"its shape is {tuple(rooms)}")
    if x.count is not None or count_in(wanted) is not None:
        return (reshape_value(site, x, wanted),)
    if -1 in rooms:
        others = math.prod(n for n in rooms if n != -1)
        if others == 0 or x.type.size % others:
            raise Unsupported(f"{x.type} has no shape {tuple(rooms)}")
        rooms[rooms.index(-1)] = x.type.size // others
    return (site.view(x, rooms),)


@node_type("Flatten")
def flatten(site: NodeSite) -> Results:
    x, axis = site.operand(0), int(site.attribute("axis", 1))
    if not -x.rank <= axis <= x.rank:
        raise Unsupported(f"there is no axis {axis} of {x.type}")
    axis = axis + x.rank if axis < 0 else axis
    return (site.view(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))),)


@node_type("Squeeze")
def squeeze(site: NodeSite) -> Results:
    x = site.operand(0)
    if site.optional(1) is None:
        if x.count is not None:
            raise Unsupported("it names no axes, and data decide how many elements its input has")
        return (site.view(x, [n for n in x.shape if n != 1]),)
    axes = site.axes(site.integers(1, "axes"), x.rank)
    long = [axis for axis in axes if x.shape[axis] != 1]
    if long:
        raise Unsupported(f"the axis {long[0]} of {x.type} has more than one element")
    return (site.view(x, [n for axis, n in enumerate(x.shape) if axis not in axes]),)


@node_type("Unsqueeze")
def unsqueeze(site: NodeSite) -> Results:
    x, given = site.operand(0), site.integers(1, "axes")
    rank = x.rank + len(given)
    axes = site.axes(given, rank)
    rest = iter(x.shape)
    return (site.view(x, [1 if axis in axes else next(rest) for axis in range(rank)]),)
