"""Conversions between element types."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.packed_numbers import number_type
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.tensors import element_type
from metasched.graph.text import saturated, saturates

Results = tuple[GraphValue, ...]


@node_type("Cast")
def cast(site: NodeSite) -> Results:
    return (_converted(site, element_type(site.required("to"))),)


@node_type("CastLike")
def cast_like(site: NodeSite) -> Results:
    return (_converted(site, number_type(site.operand(1))),)


def _converted(site: NodeSite, dtype: DType) -> GraphValue:
    """The first operand in another type. Floats of 8 bits keep to their range where the node does not say otherwise."""
    x = site.operand(0)
    if dtype.is_integer and dtype.is_half and x.type.dtype.is_float:
        # The language would keep to the range, and ONNX's own results wrap.
        return site.elementwise(f"{dtype}({DType.I32}({{0}}))", x, dtype=dtype)
    if x.type.dtype is dtype or not (saturates(dtype) and site.flag("saturate", 1)):
        return site.cast(x, dtype)
    return site.elementwise(saturated(f"{DType.F32}({{0}})", dtype), x, dtype=dtype)


@node_type("BitCast")
def bit_cast(site: NodeSite) -> Results:
    x, to = site.operand(0), element_type(site.required("to"))
    if x.constant is not None and to.digits == x.type.dtype.digits:
        return (site.constant(x.constant.view(to.numpy), to),)
    if to is x.type.dtype:
        return (x,)
    if to.is_integer and x.type.dtype.is_integer and to.digits == x.type.dtype.digits:
        return (site.cast(x, to),)
    raise Unsupported(f"the language reads no bits of {x.type.dtype} as {to}")
