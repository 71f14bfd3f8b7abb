"""Elements picked by indices that are data.

An index that is out of range picks zero; one that is known at load and out of range is refused.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices, number
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]


def wrap_negative_indices(site: NodeSite, index: GraphValue, extent: int) -> GraphValue:
    """Indices counted from the beginning. Raises Unsupported for one that is known and out of range."""
    if index.constant is not None:
        low, high = (int(f(index.constant)) if index.constant.size else -1 for f in (np.min, np.max))
        if index.constant.size and not -extent <= low <= high < extent:
            raise Unsupported(f"an index is {low if low < -extent else high}, and there are {extent} elements")
        counted = np.where(index.constant < 0, index.constant.astype(np.int64) + extent, index.constant)
        return site.constant(counted.astype(np.int64), DType.I64)
    return index


def nonnegative_index(text: str, extent: int) -> str:
    """The expression of an index that may count from the end."""
    return f"(i64({text}) + {extent} if {text} < 0 else i64({text}))"


@node_type("Gather", counts=True)
def gather(site: NodeSite) -> Results:
    """Elements along an axis by their numbers, of which there may be as many as data decide."""
    axis = site.axis(int(site.attribute("axis", 0)), site.operand(0).rank)
    return run_on_rows(_gather, _mask_absent_indices(site, axis))


def _mask_absent_indices(site: NodeSite, axis: int, column: int | None = None) -> NodeSite:
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


def _gather(site: NodeSite) -> Results:
    x, index = site.operand(0), site.operand(1)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    index = wrap_negative_indices(site, index, x.shape[axis])
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
        declare_buffer("J", ValueType(DType.I64, index.shape)),
        f"{at('J', names)} = {nonnegative_index(at('I', names), x.shape[axis])}",
        f"{at('Y', over)} = {at('A', (*before, j, *after))} if {is_inside(j, x.shape[axis])} else {_zero(x)}",
    ]
    return (site.single(stages, type_, A=x, I=index),)


def is_inside(j: str, extent: int) -> str:
    return f"{j} >= 0 and {j} < {extent}"


def _zero(x: GraphValue) -> str:
    return str(number(0, x.type.dtype))


@node_type("GatherElements", counts=True)
def gather_elements(site: NodeSite) -> Results:
    axis = site.axis(int(site.attribute("axis", 0)), site.operand(0).rank)
    return run_on_rows(_gather_elements, _mask_absent_indices(site, axis))


def _gather_elements(site: NodeSite) -> Results:
    x, index = site.operand(0), site.operand(1)
    axis = site.axis(int(site.attribute("axis", 0)), x.rank)
    if index.rank != x.rank:
        raise Unsupported(f"its indices are {index.type}, and its data {x.type}")
    index = wrap_negative_indices(site, index, x.shape[axis])
    over = indices(x.rank)
    j = at("J", over)
    picked = at("A", [j if dim == axis else name for dim, name in enumerate(over)])
    stages = [
        declare_buffer("J", ValueType(DType.I64, index.shape)),
        f"{j} = {nonnegative_index(at('I', over), x.shape[axis])}",
        f"{at('Y', over)} = {picked} if {is_inside(j, x.shape[axis])} else {_zero(x)}",
    ]
    return (site.single(stages, ValueType(x.type.dtype, index.shape), A=x, I=index),)


@node_type("GatherND", counts=True)
def gather_nd(site: NodeSite) -> Results:
    x, batch = site.operand(0), int(site.attribute("batch_dims", 0))
    axis = batch if x.count is None else x.count.axis
    picks = batch <= axis < batch + site.operand(1).shape[-1]
    return run_on_rows(_gather_nd, _mask_absent_indices(site, axis, axis - batch) if picks else site)


def _gather_nd(site: NodeSite) -> Results:
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
        stages.append(declare_buffer(buffer, ValueType(DType.I64, rows)))
        element = at("I", (*names, str(dim)))
        stages.append(f"{at(buffer, names)} = {nonnegative_index(element, x.shape[batch + dim])}")
        picked.append(at(buffer, over[: len(rows)]))
    inside = " and ".join(is_inside(j, x.shape[batch + dim]) for dim, j in enumerate(picked))
    element = at("A", (*over[:batch], *picked, *over[len(rows) :]))
    stages.append(f"{at('Y', over)} = {element} if {inside} else {_zero(x)}")
    return (site.single(stages, ValueType(x.type.dtype, (*rows, *rest)), A=x, I=index),)


@node_type("OneHot")
def one_hot(site: NodeSite) -> Results:
    index, values = site.operand(0), site.operand(2)
    if values.type.size != 2:
        raise Unsupported(f"its values are {values.type}, and not two: what is off, and what is on")
    depth = int(site.require_known(1, "depth").reshape(-1)[0])
    rank = index.rank + 1
    axis = site.axis(int(site.attribute("axis", -1)), rank)
    shape = (*index.shape[:axis], depth, *index.shape[axis:])
    over = indices(rank)
    rest = [name for dim, name in enumerate(over) if dim != axis]
    element = f"i64({at('I', rest)})"
    hit = f"{over[axis]} == {element} or {over[axis]} == {element} + {depth}"
    stage = f"{at('Y', over)} = V[1] if {hit} else V[0]"
    return (site.single([stage], ValueType(values.type.dtype, shape), I=index, V=values),)
