"""Reductions along axes, and positions of extrema."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.counted.absent_elements import fill_absent
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.node_types.arithmetic import quotient
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, index_ranges, indices, limits, number
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue | None, ...]


@dataclass(frozen=True)
class _Reduction:
    """A reduction of `term` ({0} is the element), and what is made of it: `{0}`.

    `empty` is the result where there are no elements. `is_mean`: what is made is divided by the number of elements.
    """

    reducer: str
    term: str
    result: str
    empty: float
    is_mean: bool = False


_REDUCTIONS = {
    "ReduceL1": _Reduction("sum", "abs({0})", "{0}", 0.0),
    "ReduceL2": _Reduction("sum", "{0} * {0}", "sqrt({0})", 0.0),
    "ReduceLogSum": _Reduction("sum", "{0}", "log({0})", -np.inf),
    "ReduceMax": _Reduction("max", "{0}", "{0}", -np.inf),
    "ReduceMean": _Reduction("sum", "{0}", "{0}", np.nan, is_mean=True),
    "ReduceMin": _Reduction("min", "{0}", "{0}", np.inf),
    "ReduceProd": _Reduction("prod", "{0}", "{0}", 1.0),
    "ReduceSum": _Reduction("sum", "{0}", "{0}", 0.0),
    "ReduceSumSquare": _Reduction("sum", "{0} * {0}", "{0}", 0.0),
}
# Of integers, what is made of a reduction in floats.
_FLOAT_REDUCTIONS = ("ReduceL2", "ReduceLogSum")


@node_type(*_REDUCTIONS, counts=True)
def reduction(site: NodeSite) -> Results:
    """A reduction along axes, of those elements that are there."""
    return _reduce_counted(site) or run_on_rows(_reduce_operand, site)


def _reduce_counted(site: NodeSite) -> Results | None:
    """A reduction along an axis of which only a call knows how many elements there are; None where it is of no such."""
    x = site.operand(0)
    axes = None if x.count is None else reduced_axes(site, x)
    if x.count is None or axes is None or x.count.axis not in axes or not x.type.size:
        return None
    how, others = _REDUCTIONS[site.op], [axis for axis in axes if axis != x.count.axis]
    if not how.is_mean:
        return (_reduce(site, fill_absent(site, x, _neutral(how, x.type.dtype)), axes, site.op, how),)
    if not x.type.dtype.is_float:
        raise Unsupported(f"it is the mean of whole numbers, and data decide how many elements {x.type} has")
    wide, dtype = x.type.dtype.compute, x.type.dtype
    plain = replace(how, is_mean=False)
    given = fill_absent(site, replace(site.cast(x, wide), count=x.count), _neutral(plain, wide))
    total = _reduce(site, given, axes, site.op, plain)
    rest = prod(x.shape[axis] for axis in others)
    text = f"{dtype}({{0}} / {wide}({{1}} * {rest}))"
    return (site.elementwise(text, total, site.view(x.count.number, ()), dtype=dtype),)


def _neutral(how: _Reduction, dtype: DType) -> str:
    """The number that does not change a reduction."""
    if how.reducer in ("sum", "prod"):
        return str(number(0 if how.reducer == "sum" else 1, dtype))
    return limits(dtype)[0 if how.reducer == "max" else 1]


def _reduce_operand(site: NodeSite) -> Results:
    x, how = site.operand(0), _REDUCTIONS[site.op]
    axes = reduced_axes(site, x)
    if axes is not None:
        return (_reduce(site, x, axes, site.op, how),)
    is_itself = how.term == "{0}" and how.result == "{0}" and not how.is_mean
    return (x if is_itself else _reduce(site, x, (), site.op, how),)


def reduced_axes(site: NodeSite, x: GraphValue) -> tuple[int, ...] | None:
    """The axes that a node reduces; None where it is to do nothing."""
    given = site.attribute("axes")
    if given is None and site.optional(1) is not None:
        given = site.integers(1, "axes")
    if given is None or len(given) == 0:
        return None if site.flag("noop_with_empty_axes") else tuple(range(x.rank))
    return tuple(sorted(site.axes(given, x.rank)))


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes left as one."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def _final(site: NodeSite, made: GraphValue, x: GraphValue, axes: tuple[int, ...]) -> GraphValue:
    """The result without the reduced axes, unless the node keeps them."""
    if site.flag("keepdims", 1):
        return made
    return site.view(made, [n for axis, n in enumerate(x.shape) if axis not in axes])


def _reduce(site: NodeSite, x: GraphValue, axes: tuple[int, ...], op: str, how: _Reduction) -> GraphValue:
    dtype, shape = x.type.dtype, kept_shape(x.shape, axes)
    type_ = ValueType(dtype, shape)
    if not x.type.size and type_.size:
        return _final(site, _empty_result(site, type_, how), x, axes)
    wide = DType.U8 if dtype.is_bool else dtype.compute
    if op in _FLOAT_REDUCTIONS and not dtype.is_float:
        wide = DType.F64
    over = indices(x.rank)
    inner = [f"r{dim}" if dim in axes else name for dim, name in enumerate(over)]
    element = at("A", inner)
    element = element if wide is dtype else f"{wide}({element})"
    count = prod(x.shape[axis] for axis in axes)
    term = how.term.format(element)
    if axes:
        term = f"{how.reducer}[{index_ranges([f'r{axis}' for axis in axes], [x.shape[axis] for axis in axes])}]({term})"
    division = f"{count}.0" if wide.is_float else str(count)
    result = quotient(wide) if how.is_mean else how.result
    if result == "{0}" and wide is dtype:
        return _final(site, site.single([f"{at('Y', over)} = {term}"], type_, A=x), x, axes)
    text = result.format(at("T", over), division)
    text = text if wide is dtype else f"{dtype}({text})"
    stages = [declare_buffer("T", ValueType(wide, shape)), f"{at('T', over)} = {term}", f"{at('Y', over)} = {text}"]
    return _final(site, site.single(stages, type_, A=x), x, axes)


def _empty_result(site: NodeSite, type_: ValueType, how: _Reduction) -> GraphValue:
    """The result of a reduction of no elements."""
    value: float | int | bool = how.empty
    if type_.dtype.is_integer and not np.isfinite(value):
        limits = np.iinfo(type_.dtype.numpy)
        value = limits.min if value < 0 else limits.max
    if type_.dtype.is_bool:
        value = value > 0
    return site.constant(np.full(type_.shape, value, type_.dtype.numpy), type_.dtype)


@node_type("ReduceLogSumExp", counts=True)
def log_sum_exp(site: NodeSite) -> Results:
    """The logarithm of a sum of exponentials along axes, of those elements that are there."""
    x = site.operand(0)
    axes = None if x.count is None else reduced_axes(site, x)
    if x.count is None or axes is None or x.count.axis not in axes:
        return run_on_rows(_log_sum_exp, site)
    # Whole numbers have none whose exponential is zero.
    floats = x if x.type.dtype.is_float else replace(site.cast(x, DType.F64), count=x.count)
    made = _log_sum_exp(_replace_first_input(site, fill_absent(site, floats, limits(floats.type.dtype)[0])))
    return tuple(None if value is None else site.cast(value, x.type.dtype) for value in made)


def _replace_first_input(site: NodeSite, x: GraphValue) -> NodeSite:
    """A node of another first input."""
    return replace(site, inputs=(x, *site.inputs[1:]))


def _log_sum_exp(site: NodeSite) -> Results:
    """The largest element is taken out first, so that nothing overflows."""
    x = site.operand(0)
    axes = reduced_axes(site, x)
    if axes is None:
        return (site.elementwise("log(exp({0}))", x),)
    dtype, shape = x.type.dtype, kept_shape(x.shape, axes)
    type_ = ValueType(dtype, shape)
    if not x.type.size and type_.size:
        return (_final(site, _empty_result(site, type_, _REDUCTIONS["ReduceLogSum"]), x, axes),)
    wide = dtype.compute if dtype.is_float else DType.F64
    over = indices(x.rank)
    inner = [f"r{dim}" if dim in axes else name for dim, name in enumerate(over)]
    ranges = index_ranges([f"r{axis}" for axis in axes], [x.shape[axis] for axis in axes])
    element, own = f"{wide}({at('A', inner)})", at("M", over)
    largest = at("M", ["0" if dim in axes else name for dim, name in enumerate(inner)])
    finite = f"({largest} if abs({largest}) < inf else 0.0)"
    stages = [
        declare_buffer("M", ValueType(wide, shape)),
        f"{own} = max[{ranges}]({element})",
        declare_buffer("S", ValueType(wide, shape)),
        f"{at('S', over)} = sum[{ranges}](exp({element} - {finite}))",
        f"{at('Y', over)} = {dtype}(log({at('S', over)}) + ({own} if abs({own}) < inf else 0.0))",
    ]
    return (_final(site, site.single(stages, type_, A=x), x, axes),)


@node_type("ArgMax", "ArgMin", counts=True)
def position(site: NodeSite) -> Results:
    """The place of the first or the last extremum of a row, of those elements that are there; 0 where none is."""
    x = site.operand(0)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    if x.count is None or x.count.axis != axis:
        return run_on_rows(lambda own: (_position(own, axis, None),), site)
    return (_position(site, axis, site.view(x.count.number, ())),)


def _position(site: NodeSite, axis: int, there: GraphValue | None) -> GraphValue:
    """The place of an extremum; `there` says how many elements there are, where only a call knows."""
    x = site.operand(0)
    extent, dtype = x.shape[axis], x.type.dtype
    if not extent:
        raise Unsupported(f"{x.type} has no elements along its axis {axis}")
    shape, over = kept_shape(x.shape, (axis,)), indices(x.rank)
    # The last one is the first from the end.
    backwards = f"{extent - 1} - {{0}}" if there is None else f"min(max(S[] - 1 - {{0}}, 0), {extent - 1})"
    turned = backwards if site.flag("select_last_index") else "{0}"
    element = at("A", [turned.format("r0") if dim == axis else name for dim, name in enumerate(over)])
    if there is not None:
        element = f"{element} if r0 < S[] else {limits(dtype)[site.op == 'ArgMin']}"
    stages = [
        declare_buffer("V", ValueType(dtype, shape)),
        declare_buffer("P", ValueType(DType.I64, shape)),
        f"{at('V', over)}, {at('P', over)} = {site.op.lower()}[r0 < {extent}]({element})",
        f"{at('Y', over)} = {turned.format(at('P', over))}",
    ]
    type_ = ValueType(DType.I64, shape)
    return _final(site, site.single(stages, type_, A=x, S=there), x, (axis,))
