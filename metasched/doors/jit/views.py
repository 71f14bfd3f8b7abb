"""Views: arrays that share the elements of another one, as NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.trace import ArrayTrace, Layout, TracedOperand, ViewStep
from metasched.graph.builder import GraphValue
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class TransposedView:
    """The dimensions in another order."""

    order: tuple[int, ...]

    def read_from(self, trace: ArrayTrace, whole: GraphValue) -> GraphValue:
        return trace.nodes.call("Transpose", whole, perm=self.order)

    def write_into(self, trace: ArrayTrace, whole: GraphValue, part: GraphValue) -> GraphValue:
        del whole
        return trace.nodes.call("Transpose", part, perm=tuple(int(n) for n in np.argsort(self.order)))

    def layout(self, whole: Layout) -> Layout:
        return whole.transpose(self.order)


@dataclass(frozen=True)
class ReshapedView:
    """A view of all elements, in their order, in another shape."""

    shape: tuple[int, ...]

    def read_from(self, trace: ArrayTrace, whole: GraphValue) -> GraphValue:
        return trace.nodes.view(whole, self.shape)

    def write_into(self, trace: ArrayTrace, whole: GraphValue, part: GraphValue) -> GraphValue:
        return trace.nodes.view(part, whole.shape)

    def layout(self, whole: Layout) -> Layout:
        return whole.reshape(self.shape)


@dataclass(frozen=True)
class ReadOnlyView:
    """What NumPy does not let be written, such as an array that is broadcast.

    Attributes:
        elements: computes them of those of the array.
        numpy: NumPy's function of an array that gives the view.

    """

    elements: Callable[[ArrayTrace, GraphValue], GraphValue]
    numpy: Callable[[Any], Any]

    def read_from(self, trace: ArrayTrace, whole: GraphValue) -> GraphValue:
        return self.elements(trace, whole)

    def write_into(self, trace: ArrayTrace, whole: GraphValue, part: GraphValue) -> GraphValue:
        raise TraceError("a view is written that is read-only: several of its elements may be one", "make a copy first")

    def layout(self, whole: Layout) -> Layout:
        made: Layout = self.numpy(whole)
        return made


def make_view(trace: ArrayTrace, array: Any, step: ViewStep) -> Any:
    """A view of a traced array; of what is known, its elements. Raises Unsupported."""
    if not isinstance(array, TracedOperand):
        return step.read_from(trace, trace.value(array))
    made = type(array)(trace, None, view=(array, step))
    made.value  # noqa: B018 -- what cannot be expressed is refused where the view is made
    return made


def reshape_array(trace: ArrayTrace, array: Any, shape: tuple[int, ...]) -> Any:
    """An array in another shape: a view where NumPy makes one, and a copy where it has to."""
    if not isinstance(array, TracedOperand) or is_view(array.layout(), shape):
        return make_view(trace, array, ReshapedView(shape))
    return trace.nodes.view(array.value, shape)


def make_array(trace: ArrayTrace, value: GraphValue) -> Any:
    """An array of these elements: one of no dimensions is a view of a row of one, since a number is no view."""
    if value.rank:
        return trace.array(value)
    return reshape_array(trace, trace.array(trace.nodes.view(value, (1,))), ())


def is_view(layout: Layout, shape: tuple[int, ...]) -> bool:
    """Whether NumPy reshapes an array without a copy."""
    return layout.flags.c_contiguous or np.may_share_memory(layout.reshape(shape), layout)
