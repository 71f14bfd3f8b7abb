"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from metasched.dtypes import DType, float_format
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.packed_numbers import number_type
from metasched.graph.reading.tensors import element_type
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import clamp_to_range, real, saturate, saturates

Results = tuple[GraphValue, ...]


@node_type("Cast")
def cast(site: NodeSite) -> Results:
    return (_convert(site, element_type(site.require_attribute("to"))),)


@node_type("CastLike")
def cast_like(site: NodeSite) -> Results:
    return (_convert(site, number_type(site.operand(1))),)


def _convert(site: NodeSite, dtype: DType) -> GraphValue:
    """The first operand in another type. Floats of 8 bits keep to their range where the node does not say otherwise."""
    x = site.operand(0)
    if x.type.dtype is not dtype and dtype.is_float and float_format(dtype).has_powers_alone:
        return _cast_to_power(site, x, dtype)
    if dtype.is_integer and dtype.is_storage and x.type.dtype.is_float:
        # The language would keep to the range, and ONNX's own results wrap.
        return site.elementwise(f"{dtype}({DType.I32}({{0}}))", x, dtype=dtype)
    if x.type.dtype is dtype or not (saturates(dtype) and site.flag("saturate", 1)):
        return site.cast(x, dtype)
    return site.elementwise(saturate(f"{DType.F32}({{0}})", dtype), x, dtype=dtype)


_DOWN = "down"
# What is rounded to instead of the power of two, {1}, that is nearest to a number, {0}.
_OTHER_POWER: Mapping[str, str] = MappingProxyType(
    {
        "nearest": "",
        "up": "f32({1}) * 2.0 if f32({1}) < {0} else f32({1})",
        _DOWN: "f32({1}) * 0.5 if f32({1}) > {0} else f32({1})",
    }
)


def _cast_to_power(site: NodeSite, x: GraphValue, dtype: DType) -> GraphValue:
    """A power of two: the nearest to each number, or the next one up or down, of what is kept in the range of them."""
    how = site.require_one_of("round_mode", "up", tuple(_OTHER_POWER))
    given, other = site.cast(x, DType.F32), _OTHER_POWER[how]
    if site.flag("saturate", 1):
        given = site.elementwise(clamp_to_range("{0}", dtype), given)
    elif how == _DOWN:
        largest = real(float_format(dtype).largest)
        given = site.elementwise(f"({largest} if {{0}} > {largest} and {{0}} < inf else {{0}})", given)
    nearest = site.cast(given, dtype)
    return site.with_arguments(f"{dtype}({other})", [given, nearest], dtype) if other else nearest


@node_type("BitCast")
def bit_cast(site: NodeSite) -> Results:
    x, to = site.operand(0), element_type(site.require_attribute("to"))
    if x.constant is not None and to.digits == x.type.dtype.digits:
        return (site.constant(x.constant.view(to.numpy), to),)
    if to is x.type.dtype:
        return (x,)
    if to.is_integer and x.type.dtype.is_integer and to.digits == x.type.dtype.digits:
        return (site.cast(x, to),)
    raise Unsupported(f"the language reads no bits of {x.type.dtype} as {to}")
