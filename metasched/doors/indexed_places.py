"""Elements at places that several arrays of indices name together: read, and written."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.doors.node_calls import NodeCalls
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_types.gathering import wrap_negative_indices
from metasched.graph.text import at, broadcast, declare_buffer, indices, number, read
from metasched.graph.value_type import ValueType

Places = Mapping[int, GraphValue]


def shape_of(places: Places) -> tuple[int, ...]:
    """The shape of indices together. Raises Unsupported where they are none, or do not broadcast."""
    for index in places.values():
        if index.type.dtype.is_bool:
            raise Unsupported("a mask picks as many elements as the data say; np.where(mask, x, y) keeps every element")
        if not index.type.dtype.is_integer:
            raise Unsupported("only integers, slices, None, Ellipsis and integer arrays are indices")
    return broadcast(*(index.shape for index in places.values()))


def gather_at_places(nodes: NodeCalls, x: GraphValue, places: Places, first: int) -> GraphValue:
    """The elements at places.

    Args:
        nodes: what makes nodes of the graph.
        x: the array.
        places: indices along some of its dimensions, which are broadcast together; they may count from the end, and
            one that is out of range picks zero.
        first: which dimension of the result the first of theirs is. The others keep their order.

    """
    shape = shape_of(places)
    if len(places) == 1:
        (dim,) = places
        if dim == first:
            return nodes.call("Gather", x, places[dim], axis=dim)
    others = [n for dim, n in enumerate(x.shape) if dim not in places]
    result = (*others[:first], *shape, *others[first:])
    over = indices(len(result))
    place, rest = over[first : first + len(shape)], [*over[:first], *over[first + len(shape) :]]
    node = nodes.site("Index")
    stages: list[str] = []
    met: list[str] = []
    inputs: dict[str, GraphValue] = {}
    subscripts: list[str] = []
    for dim in range(x.rank):
        if dim not in places:
            subscripts.append(rest.pop(0))
            continue
        index = wrap_negative_indices(node, places[dim], x.shape[dim])
        inputs[f"I{dim}"] = index
        element = read(f"I{dim}", index.shape, place, shape)
        if index.constant is None:
            own = indices(index.rank, "j")
            source = at(f"I{dim}", own)
            stages += [
                declare_buffer(f"J{dim}", ValueType(DType.I64, index.shape)),
                f"{at(f'J{dim}', own)} = (i64({source}) + {x.shape[dim]} if {source} < 0 else i64({source}))",
            ]
            element = read(f"J{dim}", index.shape, place, shape)
            met.append(f"{element} >= 0 and {element} < {x.shape[dim]}")
        subscripts.append(element)
    text = at("A", subscripts)
    if met:
        text = f"{text} if {' and '.join(met)} else {number(0, x.type.dtype)}"
    stages.append(f"{at('Y', over)} = {text}")
    return node.single(stages, ValueType(x.type.dtype, result), A=x, **inputs)


def scatter_at_places(
    nodes: NodeCalls, x: GraphValue, places: Places, first: int, update: GraphValue, reduction: str = "none"
) -> GraphValue:
    """An array with other elements at places: the last where several are for one, or a reduction with what was there.

    Args:
        nodes: what makes nodes of the graph.
        x: the array.
        places: as those of `gather_at_places`; one that is out of range is none.
        first: as that of `gather_at_places`.
        update: the elements, in a shape that broadcasts to that of `gather_at_places`.
        reduction: "none", or "add", "mul", "max" or "min".

    """
    shape, dims = shape_of(places), sorted(places)
    order = [*dims, *(dim for dim in range(x.rank) if dim not in places)]
    others = [x.shape[dim] for dim in order[len(dims) :]]
    given = nodes.call("Expand", update, nodes.integers("shape", (*others[:first], *shape, *others[first:])))
    if first:
        moved = [*range(first, first + len(shape)), *range(first), *range(first + len(shape), given.rank)]
        given = nodes.call("Transpose", given, perm=moved)
    node = nodes.site("Index")
    wide = [
        nodes.call(
            "Expand",
            nodes.cast(wrap_negative_indices(node, places[dim], x.shape[dim]), DType.I64),
            nodes.integers("shape", shape),
        )
        for dim in dims
    ]
    parts = [nodes.view(index, (*shape, 1)) for index in wide]
    index = parts[0] if len(parts) == 1 else nodes.call("Concat", *parts, axis=len(shape))
    made = nodes.call("ScatterND", nodes.call("Transpose", x, perm=order), index, given, reduction=reduction)
    return nodes.call("Transpose", made, perm=[order.index(dim) for dim in range(x.rank)])
