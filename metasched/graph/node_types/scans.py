"""Sums and products of all elements of a row up to each."""

from __future__ import annotations

from dataclasses import replace

from metasched.graph.builder import GraphValue
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue | None, ...]


@node_type("CumSum", "CumProd", counts=True)
def running(site: NodeSite) -> Results:
    """Sums or products of all elements up to each; of those that there are, where data decide how many."""
    x = site.operand(0)
    axis = site.axis(int(site.require_known(1, "axis").reshape(-1)[0]), x.rank)
    if x.count is None or x.count.axis != axis or site.flag("reverse"):
        return run_on_rows(_scan_node, site)
    inputs = (replace(x, count=None), site.operand(1))
    return (replace(_scan_node(replace(site, inputs=inputs))[0], count=x.count),)


def _scan_node(site: NodeSite) -> tuple[GraphValue]:
    x = site.operand(0)
    axis = site.axis(int(site.require_known(1, "axis").reshape(-1)[0]), x.rank)
    reducer = "sum" if site.op == "CumSum" else "prod"
    return (scan_axis(site, x, Scan(reducer, axis, site.flag("exclusive"), site.flag("reverse"))),)
