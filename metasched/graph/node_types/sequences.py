"""Sequences of tensors, whose lengths are known at load: they are taken apart, and no call knows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.counted.parts_of_rows import is_open, no_sizes_of_parts, parts_along
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import stack_values
from metasched.graph.reading.tensors import element_type
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]


@node_type("SequenceEmpty")
def sequence_empty(site: NodeSite) -> Results:
    given = site.attribute("dtype")
    return (_sequence(site, (), DType.F32 if given is None else element_type(int(given))),)


@node_type("SequenceConstruct")
def sequence_construct(site: NodeSite) -> Results:
    operands = site.operands
    return (_sequence(site, operands, operands[0].type.dtype),)


@node_type("SequenceInsert")
def sequence_insert(site: NodeSite) -> Results:
    """A sequence with a tensor before a position, by default at the end."""
    elements, value = _elements(site), site.operand(1)
    at = len(elements) if site.optional(2) is None else _position(site, 2, len(elements), len(elements) + 1)
    return (_sequence(site, (*elements[:at], value, *elements[at:]), value.type.dtype),)


@node_type("SequenceErase")
def sequence_erase(site: NodeSite) -> Results:
    """A sequence without the element at a position, by default the last."""
    elements = _elements(site)
    at = _position(site, 1, len(elements), len(elements)) if site.optional(1) is not None else len(elements) - 1
    if at < 0:
        raise Unsupported("the sequence is empty")
    return (_sequence(site, (*elements[:at], *elements[at + 1 :]), elements[0].type.dtype),)


@node_type("SequenceAt")
def sequence_at(site: NodeSite) -> Results:
    elements = _elements(site)
    return (elements[_position(site, 1, len(elements), len(elements))],)


@node_type("SequenceLength")
def sequence_length(site: NodeSite) -> Results:
    return (site.constant(np.array(len(_elements(site)), np.int64)),)


@node_type("ConcatFromSequence")
def concat_from_sequence(site: NodeSite) -> Results:
    elements, axis = _elements(site), int(site.require_attribute("axis"))
    if not elements:
        raise Unsupported("the sequence is empty")
    if not site.flag("new_axis"):
        return (call_node(site, "Concat", *elements, axis=axis),)
    if len({element.type for element in elements}) > 1:
        raise Unsupported("its elements have different types, which are put together along a new axis")
    return (stack_values(site, elements, site.axis(axis, elements[0].rank + 1)),)


@node_type("SplitToSequence", counts=True)
def split_to_sequence(site: NodeSite) -> Results:
    """Parts along an axis: by default of one, without the axis unless `keepdims`; else of one size, or of given
    sizes.
    """
    x = site.operand(0)
    axis = site.axis(site.attribute("axis", 0), x.rank)
    parts = parts_along(site, axis, _sizes(site, x, axis))
    if site.optional(1) is None and not site.flag("keepdims", 1):
        parts = tuple(_drop_axis(site, part, axis) for part in parts)
    return (_sequence(site, parts, x.type.dtype),)


def _sizes(site: NodeSite, x: GraphValue, axis: int) -> tuple[int, ...]:
    given = (1,) if site.optional(1) is None else site.integers(1, "sizes")
    if site.optional(1) is not None and site.operand(1).rank:
        return given
    (size,) = given
    if size < 1:
        raise Unsupported(f"its parts have {size} elements")
    if is_open(x, axis):
        raise no_sizes_of_parts(x, axis, "how many parts there are")
    return tuple(min(size, x.shape[axis] - start) for start in range(0, x.shape[axis], size))


def _drop_axis(site: NodeSite, part: GraphValue, axis: int) -> GraphValue:
    """A part of one element along an axis without this dimension, and with the size that data decide of another one."""
    shape = (*part.shape[:axis], *part.shape[axis + 1 :])
    (made,) = run_on_rows(lambda site: (site.view(part, shape),), replace(site, inputs=(part,)))
    assert made is not None, part
    return made


def _sequence(site: NodeSite, elements: Sequence[GraphValue], dtype: DType) -> GraphValue:
    return GraphValue(site.origin.value, ValueType(dtype, (len(elements),)), elements=tuple(elements))


def _elements(site: NodeSite) -> tuple[GraphValue, ...]:
    given = site.value(0)
    if given.elements is None:
        raise Unsupported(f"its input `{given.name}` is a tensor, and not a sequence")
    return given.elements


def _position(site: NodeSite, number: int, length: int, places: int) -> int:
    """A position that may count from the end of a sequence, as one of so many places."""
    (given,) = site.integers(number, "position")
    if not -length <= given < places:
        raise Unsupported(f"there is no position {given} in a sequence of {length}")
    return given + length if given < 0 else given
