"""Elements picked by indices that are data.

An index that is out of range picks zero; one that is known at load and out of range is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted_rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.repeated_elements import without_repeats
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declared, indices, number
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

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


@dataclass(frozen=True)
class _Updates:
    """How an element looks through the updates that may be for it.

    Attributes:
        over: the indices of the elements.
        places: those of the updates, with `r0` for their number.
        count: how many there are.
        inside: conditions on elements that there are updates for at all.
        met: whether an update is for an element, under those.
        there: what only a call knows of how many updates there are, whose name is S.
        lines: the shape of the elements that may have updates of other numbers.

    """

    over: tuple[str, ...]
    places: list[str]
    count: int
    inside: list[str]
    met: list[str]
    there: GraphValue | None
    lines: tuple[int, ...]


@node_type("ScatterElements", "Scatter", counts=True)
def scatter_elements(site: NodeSite) -> Results:
    """Each element looks through the updates of its line for those that are for it."""
    x, index, updates = site.operand(0), site.operand(1), site.operand(2)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    count = _count_of_updates(site, index, updates)
    extent, given = x.shape[axis], index.shape
    # What is the same for all elements of a line is looked for once.
    index = without_repeats(site.builder, from_the_beginning(site, index, extent))
    over = indices(x.rank)
    line = [("r0" if dim == axis else name) for dim, name in enumerate(over)]
    own = ["0" if n == 1 and dim != axis else name for dim, (n, name) in enumerate(zip(index.shape, line, strict=True))]
    inside = [f"{over[dim]} < {n}" for dim, n in enumerate(given) if dim != axis and n < x.shape[dim]]
    met = [f"{_target(at('I', own), x, axis)} == {over[axis]}"]
    if count is not None:
        (met if count.axis == axis else inside).append(f"{line[count.axis]} < S[]")
    lines = tuple(1 if text == "0" else n for text, n in zip(own, x.shape, strict=True))
    there = None if count is None else site.view(count.number, ())
    how = _Updates(over, line, given[axis], inside, met, there, lines)
    mode = site.one_of("reduction", "none", _REDUCTIONS)
    made = _scattered(site, (x, index, updates), how, mode)
    return (replace(made, count=x.count),)


def _count_of_updates(site: NodeSite, index: GraphValue, updates: GraphValue) -> ValueCount | None:
    """How many updates there are, where only a call knows."""
    counts = [value.count for value in (index, updates) if value.count is not None]
    is_one = all(site.builder.same(count.number, counts[0].number) for count in counts)
    if any(count.axis != counts[0].axis for count in counts) or not is_one:
        raise Unsupported("data decide how many indices it has, and otherwise how many updates")
    return counts[0] if counts else None


def _target(text: str, x: GraphValue, axis: int) -> str:
    """The expression of an index that may count from the end, which only a call may know: N."""
    if x.count is None or x.count.axis != axis:
        return _counted(text, x.shape[axis])
    return f"(i64({text}) + N[] if {text} < 0 else i64({text}))"


@node_type("ScatterND", counts=True)
def scatter_nd(site: NodeSite) -> Results:
    x, index, updates = site.operand(0), site.operand(1), site.operand(2)
    count = _count_of_updates(site, index, updates)
    if count is not None and (count.axis or index.rank != 2):
        raise Unsupported(f"data decide how many of its indices {index.type} there are, which are no rows")
    depth = index.shape[-1]
    rows, rest = math.prod(index.shape[:-1]), x.shape[depth:]
    flat = site.view(x, (math.prod(x.shape[:depth]), math.prod(rest)))
    update = site.view(updates, (rows, math.prod(rest)))
    places = site.view(index, (rows, depth))
    strides = [math.prod(x.shape[dim + 1 : depth]) for dim in range(depth)]
    target = " + ".join(f"{_target(f'I[j0, {dim}]', x, dim)} * {stride}" for dim, stride in enumerate(strides))
    number_ = None if x.count is None else site.view(x.count.number, ())
    place = site.single([f"Y[j0] = {target or '0'}"], ValueType(DType.I64, (rows,)), I=places, N=number_)
    mode = site.one_of("reduction", "none", _REDUCTIONS)
    met = ["I[r0] == i0"] + ([] if count is None else ["r0 < S[]"])
    there = None if count is None else site.view(count.number, ())
    how = _Updates(("i0", "i1"), ["r0", "i1"], rows, [], met, there, flat.shape)
    made = site.view(_scattered(site, (flat, place, update), how, mode), x.shape)
    return (replace(made, count=x.count),)


def _scattered(
    site: NodeSite, operands: tuple[GraphValue, GraphValue, GraphValue], how: _Updates, mode: str
) -> GraphValue:
    x, index, updates = operands
    if not index.type.size or not updates.type.size:
        return x
    over, own, met = how.over, at("A", how.over), " and ".join([*how.inside, *how.met])
    given = {"A": x, "I": index, "U": updates, "S": how.there}
    given["N"] = None if x.count is None else site.view(x.count.number, ())
    if mode == "none" and how.count == 1:
        picked, there = at("U", ["0" if name == "r0" else name for name in how.places]), re.sub(r"\br0\b", "0", met)
        return site.single([f"{at('Y', over)} = {picked} if {there} else {own}"], x.type, **given)
    if mode == "none":
        line = ["0" if n == 1 else name for n, name in zip(how.lines, over, strict=True)]
        last = at("P", line)
        picked = at("U", [f"{last} - 1" if name == "r0" else name for name in how.places])
        guard = " and ".join([f"{last} - 1 >= 0", f"{last} - 1 < {how.count}", *how.inside])
        stages = [
            declared("P", ValueType(DType.I64, how.lines)),
            f"{at('P', over)} = max[r0 < {how.count}](r0 + 1 if {_of_lines(how, line)} else 0)",
            f"{at('Y', over)} = {picked} if {guard} else {own}",
        ]
        return site.single(stages, x.type, **given)
    reducer, joined = _JOINED[mode]
    total = at("T", over)
    wide = x.type.dtype.compute
    term = at("U", how.places)
    stages = [
        declared("T", ValueType(wide, x.shape)),
        f"{total} = {reducer}[r0 < {how.count} if {met}]({wide}({term}))",
        f"{at('Y', over)} = {x.type.dtype}({joined.format(f'{wide}({own})', total)})",
    ]
    return site.single(stages, x.type, **given)


def _of_lines(how: _Updates, line: Sequence[str]) -> str:
    """Whether an update is for the elements of a line; conditions along what a line has one of are its elements'."""
    alone = {name for name, own in zip(how.over, line, strict=True) if own == "0"}
    inside = [text for text in how.inside if text.split()[0] not in alone]
    return " and ".join([*inside, *how.met])


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
