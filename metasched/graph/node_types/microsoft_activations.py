"""Activations that ONNX Runtime's optimisers write, some with what is added ahead of them."""

from __future__ import annotations

from metasched.graph.builder import GraphValue
from metasched.graph.registry import NodeForm, call_node, node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue, ...]


@node_type("com.microsoft:Gelu", form=NodeForm((1, 1)))
def gelu(site: NodeSite) -> Results:
    return (call_node(site, "Gelu", site.operand(0)),)


@node_type("com.microsoft:BiasGelu", form=NodeForm((2, 2)))
def bias_gelu(site: NodeSite) -> Results:
    return (call_node(site, "Gelu", call_node(site, "Add", site.operand(0), site.operand(1))),)


@node_type("com.microsoft:FastGelu", form=NodeForm((1, 2)))
def fast_gelu(site: NodeSite) -> Results:
    x, bias = site.operand(0), site.optional(1)
    return (call_node(site, "Gelu", x if bias is None else call_node(site, "Add", x, bias), approximate="tanh"),)


@node_type("com.microsoft:QuickGelu", form=NodeForm((1, 1), {"alpha": 1.702}))
def quick_gelu(site: NodeSite) -> Results:
    return (call_node(site, "Swish", site.operand(0), alpha=float(site.attribute("alpha"))),)


@node_type("com.microsoft:BiasAdd", form=NodeForm((3, 3)))
def bias_add(site: NodeSite) -> Results:
    x, bias, skip = site.operands
    return (call_node(site, "Add", call_node(site, "Add", x, bias), skip),)
