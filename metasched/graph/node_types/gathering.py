"""Elements picked by indices that are data.

An index that is out of range picks zero; one that is known at load and out of range is refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.counted_rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices, number

Results = tuple[GraphValue | None, ...]


def from_the_beginning(site: NodeSite, index: GraphValue, extent: int) -> GraphValue:
    """Indices counted from the beginning. Raises Unsupported for one that is known and out of range."""
    if index.constant is not None:
        low, high = (int(f(index.constant, initial=0)) for f in (np.min, np.max))
        if low < -extent or high >= extent:
            raise Unsupported(f"an index is {low if low < -extent else high}, and there are {extent} elements")
        counted = np.where(index.constant < 0, index.constant.astype(np.int64) + extent, index.constant)
        return site.constant(counted.astype(np.int64), DType.I64)
    return index


def _counted(text: str, extent: int) -> str:
    """The expression of an index that may count from the end."""
    return f"(i64({text}) + {extent} if {text} < 0 else i64({text}))"


@node_type("Gather", counts=True)
def gather(site: NodeSite) -> Results:
    """Elements along an axis by their numbers, of which there may be as many as data decide."""
    axis = site.axis(int(site.attribute("axis", 0)), site.operand(0).rank)
    return run_on_rows(_gathered, _of_those_there(site, axis))


def _of_those_there(site: NodeSite, axis: int, column: int | None = None) -> NodeSite:
    """A node that gathers along an axis, with indices of what is there where data decide how many elements that are.

    They may count from the end of these, and others pick zero. `column` says where those of the axis are along the last
    dimension of the indices; None where there are no others.
    """
    x, index = site.operand(0), site.operand(1)
    if x.count is None or x.count.axis != axis:
        return site
    over, extent = indices(index.rank), x.shape[axis]
    own = f"i64({at('I', over)})"
    place = f"({own} + S[] if {own} < 0 else {own})"
    text = f"{place} if {place} >= 0 and {place} < S[] else {extent}"
    if column is not None:
        text = f"({text}) if {over[-1]} == {column} else {own}"
    number_ = site.view(x.count.number, ())
    found = site.single([f"{at('Y', over)} = {text}"], ValueType(DType.I64, index.shape), I=index, S=number_)
    return replace(site, inputs=(replace(x, count=None), replace(found, count=index.count)))


def _gathered(site: NodeSite) -> Results:
    x, index = site.operand(0), site.operand(1)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    index = from_the_beginning(site, index, x.shape[axis])
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    over = indices(len(shape))
    place = over[axis : axis + index.rank]
    before, after = over[:axis], over[axis + index.rank :]
    type_ = ValueType(x.type.dtype, shape)
    if index.constant is not None and index.type.size == 1:
        only = str(int(index.constant.reshape(-1)[0]))
        return (site.single([f"{at('Y', over)} = {at('A', (*before, only, *after))}"], type_, A=x),)
    if index.constant is not None:
        return (site.single([f"{at('Y', over)} = {at('A', (*before, at('I', place), *after))}"], type_, A=x, I=index),)
    names = indices(index.rank, "j")
    j = at("J", place)
    stages = [
        declared("J", ValueType(DType.I64, index.shape)),
        f"{at('J', names)} = {_counted(at('I', names), x.shape[axis])}",
        f"{at('Y', over)} = {at('A', (*before, j, *after))} if {_inside(j, x.shape[axis])} else {_zero(x)}",
    ]
    return (site.single(stages, type_, A=x, I=index),)


def _inside(j: str, extent: int) -> str:
    return f"{j} >= 0 and {j} < {extent}"


def _zero(x: GraphValue) -> str:
    return str(number(0, x.type.dtype))


@node_type("GatherElements", counts=True)
def gather_elements(site: NodeSite) -> Results:
    axis = site.axis(int(site.attribute("axis", 0)), site.operand(0).rank)
    return run_on_rows(_gathered_elements, _of_those_there(site, axis))


def _gathered_elements(site: NodeSite) -> Results:
    x, index = site.operand(0), site.operand(1)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    if index.rank != x.rank:
        raise Unsupported(f"its indices are {index.type}, and its data {x.type}")
    index = from_the_beginning(site, index, x.shape[axis])
    over = indices(x.rank)
    j = at("J", over)
    picked = at("A", [j if dim == axis else name for dim, name in enumerate(over)])
    stages = [
        declared("J", ValueType(DType.I64, index.shape)),
        f"{j} = {_counted(at('I', over), x.shape[axis])}",
        f"{at('Y', over)} = {picked} if {_inside(j, x.shape[axis])} else {_zero(x)}",
    ]
    return (site.single(stages, ValueType(x.type.dtype, index.shape), A=x, I=index),)


@node_type("GatherND", counts=True)
def gather_nd(site: NodeSite) -> Results:
    x, batch = site.operand(0), int(site.attribute("batch_dims", 0))
    axis = batch if x.count is None else x.count.axis
    picks = batch <= axis < batch + site.operand(1).shape[-1]
    return run_on_rows(_gathered_nd, _of_those_there(site, axis, axis - batch) if picks else site)


def _gathered_nd(site: NodeSite) -> Results:
    x, index = site.operand(0), site.operand(1)
    batch = int(site.attribute("batch_dims", 0))
    depth = index.shape[-1]
    rows, rest = index.shape[:-1], x.shape[batch + depth :]
    if x.shape[:batch] != index.shape[:batch]:
        raise Unsupported(f"the batches of {x.type} and {index.type} differ")
    over = indices(len(rows) + len(rest))
    names = indices(len(rows), "j")
    stages, picked = [], []
    for dim in range(depth):
        buffer = f"J{dim}"
        stages.append(declared(buffer, ValueType(DType.I64, rows)))
        element = at("I", (*names, str(dim)))
        stages.append(f"{at(buffer, names)} = {_counted(element, x.shape[batch + dim])}")
        picked.append(at(buffer, over[: len(rows)]))
    inside = " and ".join(_inside(j, x.shape[batch + dim]) for dim, j in enumerate(picked))
    element = at("A", (*over[:batch], *picked, *over[len(rows) :]))
    stages.append(f"{at('Y', over)} = {element} if {inside} else {_zero(x)}")
    return (site.single(stages, ValueType(x.type.dtype, (*rows, *rest)), A=x, I=index),)


@node_type("OneHot")
def one_hot(site: NodeSite) -> Results:
    index, values = site.operand(0), site.operand(2)
    depth = int(site.known(1, "depth").reshape(-1)[0])
    rank = index.rank + 1
    axis = site.axis(int(site.attribute("axis", -1)), rank)
    shape = (*index.shape[:axis], depth, *index.shape[axis:])
    over = indices(rank)
    rest = [name for dim, name in enumerate(over) if dim != axis]
    element = f"i64({at('I', rest)})"
    hit = f"{over[axis]} == {element} or {over[axis]} == {element} + {depth}"
    stage = f"{at('Y', over)} = V[1] if {hit} else V[0]"
    return (site.single([stage], ValueType(values.type.dtype, shape), I=index, V=values),)


# --- what goes to each element, which stands for writing to places that are data -------------------------------------

_JOINED = {
    "add": ("sum", "{0} + {1}"),
    "mul": ("prod", "{0} * {1}"),
    "max": ("max", "max({0}, {1})"),
    "min": ("min", "min({0}, {1})"),
}
_REDUCTIONS = ("none", *_JOINED)


@node_type("ScatterElements", "Scatter")
def scatter_elements(site: NodeSite) -> Results:
    """Each element looks through the updates of its line for those that are for it."""
    x, index, updates = site.operand(0), site.operand(1), site.operand(2)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    index = from_the_beginning(site, index, x.shape[axis])
    over = indices(x.rank)
    line = [("r0" if dim == axis else name) for dim, name in enumerate(over)]
    inside = [f"{over[dim]} < {n}" for dim, n in enumerate(index.shape) if dim != axis and n < x.shape[dim]]
    target = _counted(at("I", line), x.shape[axis])
    met = " and ".join([*inside, f"{target} == {over[axis]}"])
    mode = site.one_of("reduction", "none", _REDUCTIONS)
    return (_scattered(site, (x, index, updates), (over, line, met, index.shape[axis], inside), mode),)


@node_type("ScatterND")
def scatter_nd(site: NodeSite) -> Results:
    x, index, updates = site.operand(0), site.operand(1), site.operand(2)
    depth = index.shape[-1]
    rows, rest = math.prod(index.shape[:-1]), x.shape[depth:]
    flat = site.view(x, (math.prod(x.shape[:depth]), math.prod(rest)))
    update = site.view(updates, (rows, math.prod(rest)))
    places = site.view(index, (rows, depth))
    strides = [math.prod(x.shape[dim + 1 : depth]) for dim in range(depth)]
    target = " + ".join(f"{_counted(f'I[j0, {dim}]', x.shape[dim])} * {stride}" for dim, stride in enumerate(strides))
    place = site.single([f"Y[j0] = {target or '0'}"], ValueType(DType.I64, (rows,)), I=places)
    mode = site.one_of("reduction", "none", _REDUCTIONS)
    made = _scattered(site, (flat, place, update), (("i0", "i1"), ["r0", "i1"], "I[r0] == i0", rows, []), mode)
    return (site.view(made, x.shape),)


def _scattered(
    site: NodeSite,
    operands: tuple[GraphValue, GraphValue, GraphValue],
    line: tuple[tuple[str, ...], list[str], str, int, list[str]],
    mode: str,
) -> GraphValue:
    x, index, updates = operands
    over, places, met, count, inside = line
    if not index.type.size:
        return x
    own = at("A", over)
    if mode == "none" and count == 1:
        picked, there = at("U", ["0" if name == "r0" else name for name in places]), re.sub(r"\br0\b", "0", met)
        return site.single([f"{at('Y', over)} = {picked} if {there} else {own}"], x.type, A=x, I=index, U=updates)
    if mode == "none":
        last = at("P", over)
        picked = at("U", [f"{last} - 1" if name == "r0" else name for name in places])
        guard = " and ".join([f"{last} - 1 >= 0", f"{last} - 1 < {count}", *inside])
        stages = [
            declared("P", ValueType(DType.I64, x.shape)),
            f"{last} = max[r0 < {count}](r0 + 1 if {met} else 0)",
            f"{at('Y', over)} = {picked} if {guard} else {own}",
        ]
        return site.single(stages, x.type, A=x, I=index, U=updates)
    reducer, joined = _JOINED[mode]
    total = at("T", over)
    wide = x.type.dtype.compute
    term = at("U", places)
    stages = [
        declared("T", ValueType(wide, x.shape)),
        f"{total} = {reducer}[r0 < {count} if {met}]({wide}({term}))",
        f"{at('Y', over)} = {x.type.dtype}({joined.format(f'{wide}({own})', total)})",
    ]
    return site.single(stages, x.type, A=x, I=index, U=updates)


@node_type("TensorScatter")
def tensor_scatter(site: NodeSite) -> Results:
    """A cache with a stretch along one axis replaced: it begins at a place of each batch element's own."""
    cache, update, start = site.operand(0), site.operand(1), site.optional(2)
    axis = site.axis(int(site.attribute("axis", -2)), cache.rank)
    extent, count = cache.shape[axis], update.shape[axis]
    if axis == 0 or count > extent:
        raise Unsupported(f"{update.type} is no stretch of {cache.type} along the axis {axis}")
    over = indices(cache.rank)
    first = "0" if start is None else f"i64(W[{over[0]}])"
    place = f"{over[axis]} - {first}"
    if site.one_of("mode", "linear", ("linear", "circular")) == "circular":
        place = f"({place}) % {extent}"
    picked = at("U", [place if dim == axis else name for dim, name in enumerate(over)])
    text = f"{picked} if {_inside(place, count)} else {at('A', over)}"
    return (site.single([f"{at('Y', over)} = {text}"], cache.type, A=cache, U=update, W=start),)
