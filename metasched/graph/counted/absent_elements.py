"""Elements that are not there, of values with a size that only a call knows: what they are to a node that sees them."""

from __future__ import annotations

from metasched.graph.builder import GraphValue
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices


def fill_absent(site: NodeSite, x: GraphValue, text: str) -> GraphValue:
    """A value in which each element that is not there is what a text says, in a program of its element type.

    All of its room has a meaning then. A value that has no size that only a call knows stays what it is.
    """
    if x.count is None:
        return x
    over = indices(x.rank)
    stage = f"{at('Y', over)} = {at('A', over)} if {over[x.count.axis]} < S[] else {text}"
    return site.single([stage], x.type, A=x, S=site.view(x.count.number, ()))
