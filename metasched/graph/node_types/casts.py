"""Conversions between element types."""

from __future__ import annotations

from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.tensors import element_type

Results = tuple[GraphValue, ...]


@node_type("Cast")
def cast(site: NodeSite) -> Results:
    return (site.cast(site.operand(0), element_type(site.required("to"))),)


@node_type("CastLike")
def cast_like(site: NodeSite) -> Results:
    return (site.cast(site.operand(0), site.operand(1).type.dtype),)


@node_type("BitCast")
def bit_cast(site: NodeSite) -> Results:
    x, to = site.operand(0), element_type(site.required("to"))
    if x.constant is not None and to.bits == x.type.dtype.bits:
        return (site.constant(x.constant.view(to.numpy), to),)
    if to is x.type.dtype:
        return (x,)
    if to.is_integer and x.type.dtype.is_integer and to.bits == x.type.dtype.bits:
        return (site.cast(x, to),)
    raise Unsupported(f"the language reads no bits of {x.type.dtype} as {to}")
