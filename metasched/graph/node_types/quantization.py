"""Quantised numbers: q = round(x / scale) + zero point, and back; scales are of a tensor, an axis or blocks of one."""

from __future__ import annotations

from metasched.dtypes import DType, integer_range
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.packed_numbers import number_type, pack_weights, unpack_matrix
from metasched.graph.node_types.convolutions import convolve
from metasched.graph.node_types.matmul import product, subtract_zero_point
from metasched.graph.reading.tensors import element_type
from metasched.graph.registry import NodeForm, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices, saturate, saturates
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]


def _spread(site: NodeSite, scale: GraphValue, x: GraphValue, axis: int) -> GraphValue:
    """A scale or zero point in a shape that broadcasts to the tensor it is for."""
    if scale.type.size == 1:
        return site.view(scale, ())
    block = int(site.attribute("block_size", 0) or 0)
    axis = site.axis(axis, x.rank)
    if block:
        if scale.rank != x.rank:
            raise Unsupported(f"{scale.type} are no blocks of {x.type}")
        over = indices(x.rank)
        subscripts = [f"{name} // {block}" if dim == axis else name for dim, name in enumerate(over)]
        return site.single([f"{at('Y', over)} = {at('A', subscripts)}"], ValueType(scale.type.dtype, x.shape), A=scale)
    shape = [1] * x.rank
    shape[axis] = scale.type.size
    return site.view(scale, shape)


_AXIS_FORM = NodeForm((2, 3), {"axis": int})


@node_type("com.microsoft:QuantizeLinear", form=_AXIS_FORM)
@node_type("QuantizeLinear")
def quantize(site: NodeSite) -> Results:
    x, scale, zero = site.operand(0), site.operand(1), site.optional(2)
    to = site.attribute("output_dtype", 0)
    dtype = number_type(zero) if zero is not None else element_type(to) if to else DType.U8
    axis = int(site.attribute("axis", 1))
    scale, zero = _spread(site, scale, x, axis), None if zero is None else _spread(site, zero, x, axis)
    if dtype.is_integer:
        return (quantize_values(site, x, scale, zero, dtype),)
    if saturates(dtype):
        return (_quantize_to_float(site, x, scale, zero, dtype),)
    raise Unsupported(f"it quantises to {dtype}")


def _quantize_to_float(
    site: NodeSite, x: GraphValue, scale: GraphValue, zero: GraphValue | None, dtype: DType
) -> GraphValue:
    """Round values to a float type, and keep them in its range unless the node says otherwise."""
    zero = _none_if_zero(zero)
    operands = [site.cast(part, DType.F32) for part in (x, scale, zero) if part is not None]
    text = "{0} / {1}" if zero is None else "{0} / {1} + {2}"
    text = saturate(text, dtype) if site.flag("saturate", 1) else f"{dtype}({text})"
    return site.with_arguments(text, operands, dtype)


def quantize_values(
    site: NodeSite, x: GraphValue, scale: GraphValue, zero: GraphValue | None, dtype: DType
) -> GraphValue:
    """Round values to the nearest integers, ties to even, in the range of the type."""
    lowest, highest = integer_range(dtype)
    zero = _none_if_zero(zero)
    operands = [site.cast(x, DType.F32), site.cast(scale, DType.F32), *(() if zero is None else (zero,))]
    whole = "rint({0} / {1})" if zero is None else "rint({0} / {1}) + f32({2})"
    low, high = f"({lowest}.0)", f"{highest}.0"
    return site.with_arguments(f"{dtype}(min(max({whole}, {low}), {high}))", operands, dtype)


def _none_if_zero(zero: GraphValue | None) -> GraphValue | None:
    """A zero point, None where it is known to be zero."""
    return None if zero is None or (zero.constant is not None and not zero.constant.any()) else zero


@node_type("com.microsoft:DequantizeLinear", form=_AXIS_FORM)
@node_type("DequantizeLinear")
def dequantize(site: NodeSite) -> Results:
    x, scale, zero = site.operand(0), site.operand(1), site.optional(2)
    axis, to = int(site.attribute("axis", 1)), site.attribute("output_dtype", 0)
    dtype = element_type(to) if to else scale.type.dtype
    if x.bits and x.rank == 2 and (x.type.dtype.is_integer or _none_if_zero(zero) is None):
        zero = zero if x.type.dtype.is_integer else None
        return (site.cast(_unpack(site, x, scale, zero, site.axis(axis, x.rank)), dtype),)
    zero = None if zero is None else _spread(site, zero, x, axis)
    return (dequantize_values(site, x, _spread(site, scale, x, axis), zero, dtype),)


def _unpack(site: NodeSite, x: GraphValue, scale: GraphValue, zero: GraphValue | None, axis: int) -> GraphValue:
    """A matrix of few bits that stays packed, in f32: blocks lie along what is summed, scales' axis along results."""
    block = int(site.attribute("block_size", 0) or 0)
    summed = axis if block else 1 - axis
    if block and scale.rank != x.rank:
        raise Unsupported(f"{scale.type} are no blocks of {x.type}")

    def of_blocks(part: GraphValue) -> GraphValue:
        if block:
            return part
        shape = tuple(1 if dim == summed else extent for dim, extent in enumerate(x.shape))
        if part.type.size == 1:
            text = f"{at('Y', indices(2))} = {at('A', ['0'])}"
            return site.single([text], ValueType(part.type.dtype, shape), A=site.view(part, (1,)))
        return site.view(part, shape)

    zeros = None if zero is None else of_blocks(zero)
    weights = pack_weights(site, x, of_blocks(scale), zeros, summed, block or x.shape[summed])
    return unpack_matrix(site, weights, summed)


def dequantize_values(
    site: NodeSite, x: GraphValue, scale: GraphValue, zero: GraphValue | None, dtype: DType
) -> GraphValue:
    """Compute `(x - zero) * scale` in a type; scale and zero point broadcast to `x`."""
    zero = _none_if_zero(zero)
    wide = dtype.compute
    if zero is None:
        return site.with_arguments(f"{dtype}({wide}({{0}}) * {wide}({{1}}))", [x, scale], dtype)
    exact = DType.F32 if x.type.dtype.is_float else DType.I32
    difference = f"{wide}({exact}({{0}}) - {exact}({{1}}))"
    return site.with_arguments(f"{dtype}({difference} * {wide}({{2}}))", [x, zero, scale], dtype)


@node_type("QLinearMatMul")
def quantized_matmul(site: NodeSite) -> Results:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = site.operands
    total = product(
        site, subtract_zero_point(site, a, a_zero, -2), subtract_zero_point(site, b, b_zero, -1), DType.I32, DType.I32
    )
    return (
        _requantize(
            site,
            total,
            (broadcast_scale(site, a_scale, total, -2), broadcast_scale(site, b_scale, total, -1)),
            y_scale,
            y_zero,
        ),
    )


def broadcast_scale(site: NodeSite, scale: GraphValue, x: GraphValue, axis: int) -> GraphValue:
    """A scale, or one for each entry of an axis, in a shape that broadcasts."""
    scale = site.cast(scale, DType.F32)
    if scale.type.size == 1:
        return site.view(scale, ())
    if scale.rank != 1:
        return scale
    shape = [1] * x.rank
    shape[axis] = scale.type.size
    return site.view(scale, shape)


def _requantize(
    site: NodeSite, total: GraphValue, scales: tuple[GraphValue, GraphValue], y_scale: GraphValue, y_zero: GraphValue
) -> GraphValue:
    scaled = site.with_arguments("f32({0}) * {1} * {2}", [total, *scales], DType.F32)
    return quantize_values(site, scaled, site.view(y_scale, ()), site.view(y_zero, ()), y_zero.type.dtype)


@node_type("QLinearConv")
def quantized_convolution(site: NodeSite) -> Results:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (site.operand(n) for n in range(8))
    total = convolve(
        site,
        subtract_zero_point(site, x, x_zero, 1),
        subtract_zero_point(site, w, w_zero, 0),
        site.optional(8),
        DType.I32,
        DType.I32,
    )
    return (
        _requantize(
            site,
            total,
            (broadcast_scale(site, x_scale, total, 1), broadcast_scale(site, w_scale, total, 1)),
            y_scale,
            y_zero,
        ),
    )
