"""The order of dimensions in memory is chosen once for each region of values that go together.

A region takes the order that its reductions want where that is expected to take less time, copies at its borders
included; see `graph.layouts.cost`.
"""

from __future__ import annotations

from metasched.graph.ir import Graph
from metasched.graph.layouts.cost import copy_cost, cost
from metasched.graph.layouts.orders import Order
from metasched.graph.layouts.regions import LayoutRegion, Site, Sites, regions
from metasched.graph.layouts.rewriting import copied_values, reorder_graph
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.target import Target


@graph_pass(after=("shapes",))
def layouts(graph: Graph, context: PassContext) -> Graph:
    """Dimensions of values get the order in memory that the kernels of their region want; weights go with them."""
    sites = Sites.from_graph(graph)
    orders: dict[Site, Order] = {}
    for region in regions(sites):
        given, wanted = _costs(sites, region, context.options.target)
        said = f"{len(region.orders)} tensors around `{graph.nodes[region.wishes[0][0]].name}`"
        better = wanted < given
        if better:
            orders |= region.orders
        time = f"in the order that it wants, it is expected to take {wanted / given:.2f} times as long"
        context.remark(f"{said} {'move' if better else 'stay'}: {time}")
    return reorder_graph(sites, orders)


def _costs(sites: Sites, region: LayoutRegion, target: Target) -> tuple[float, float]:
    """The cost of a region as it is, and in the order that it wants."""
    given = wanted = 0.0
    for number, wish in region.wishes:
        form = sites.forms[number]
        orders = {b: region.orders[s] for b in form.types if (s := sites.site(number, b)) in region.orders}
        given += cost(form, wish, {}, target)
        wanted += cost(form, wish, orders, target)
    elements = sum(sites.graph.types[name].size for name in copied_values(sites, region.orders))
    return given, wanted + copy_cost(elements)
