"""What a cache is next: itself with new elements after its last, whatever the node was called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.dtypes import INDEX
from metasched.graph.fusion.copies import copied_boxes
from metasched.graph.ir import Compute, Graph
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Cache:
    """An input that a node makes longer along an axis.

    Attributes:
        input: the input of the network.
        output: the value with the new elements after it.
        new: the value that these are of.
        axis: the dimension that grows.

    """

    input: str
    output: str
    new: str
    axis: int

    def count_added(self, graph: Graph) -> int:
        """How many elements a call adds."""
        return graph.types[self.new].shape[self.axis]


def caches(graph: Graph, candidates: Mapping[str, int]) -> dict[str, Cache]:
    """The caches among inputs, each with the axis that grows, by the names of what they are next."""
    found: dict[str, Cache] = {}
    outputs = {name for _, name in graph.outputs}
    for node in graph.computes:
        if len(node.inputs) == 2 and node.inputs[0] in candidates and {*node.outputs} <= outputs:
            axis = candidates[node.inputs[0]]
            if _lengthens(graph, node, axis):
                found[node.outputs[0]] = Cache(node.inputs[0], node.outputs[0], node.inputs[1], axis)
    once = [cache.input for cache in found.values()]
    return {name: cache for name, cache in found.items() if once.count(cache.input) == 1}


def _lengthens(graph: Graph, node: Compute, axis: int) -> bool:
    """Whether a node gives its first input, and then its second along an axis."""
    boxes = copied_boxes(node.program.func)
    if boxes is None or len(boxes) != 2:
        return False
    given = node.input_values()
    shapes = [graph.types[given[box.input]].shape for box in boxes]
    if [given[box.input] for box in boxes] != list(node.inputs) or len(shapes[0]) != len(shapes[1]):
        return False
    starts = [n if d == axis else 0 for d, n in enumerate(shapes[0])]
    return all(
        box.shape == shape and _keeps_order(box.dimensions(shape), shape) and list(box.begin) == begin
        for box, shape, begin in zip(boxes, shapes, ([0] * len(starts), starts), strict=True)
    )


def _keeps_order(dimensions: Sequence[int | None] | None, shape: Sequence[int]) -> bool:
    return dimensions is not None and all(
        own == d or (own is None and shape[d] == 1) for d, own in enumerate(dimensions)
    )


def update_program(cache: Cache, whole: ValueType, added: int) -> Program:
    """The program of a cache of fixed capacity with new elements from a position on; the position is its last input."""
    over = indices(whole.rank)
    place = f"{over[cache.axis]} - length[]"
    shape = [added if d == cache.axis else n for d, n in enumerate(whole.shape)]
    new = ValueType(whole.dtype, tuple(shape))
    moved = [place if d == cache.axis else name for d, name in enumerate(over)]
    text = (
        f"program lengthened(A: {whole}, B: {new}, length: {INDEX}[]) -> Y: {whole}:\n"
        f"    {at('Y', over)} = {at('B', moved)} if {place} >= 0 and {place} < {added} else {at('A', over)}\n"
    )
    return parse_program(text)
