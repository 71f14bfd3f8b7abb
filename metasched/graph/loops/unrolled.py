"""Loops, step by step: each step is nodes of its own, where how many steps there are is known at load.

Steps are the same programs, so they are the same tasks, however many there are; numbers of steps are constants, and so
are sizes that are computed of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Compute
from metasched.graph.loops.building import LoopElements, LoopFrame, LoopResults, RunStep, StepResults
from metasched.graph.node_helpers.moved_elements import slice_axes, stack_values
from metasched.graph.reading.tensors import element_type
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType

# Steps that a node is taken apart into; each is a few kernels.
_MOST_STEPS = 2048
# Programs that all steps of a loop come to.
_MOST_PROGRAMS = 1024


def are_few(programs: int) -> bool:
    """Whether so many programs of all steps are worth being told apart."""
    return programs <= _MOST_PROGRAMS


def unroll_loop(site: NodeSite, frame: LoopFrame, run: RunStep, declared: Sequence[object]) -> LoopResults | None:
    """The steps of a loop; `declared` are the body's outputs that steps give out, for a loop that takes no step.

    None where data decide how many steps there are, and for more than 2048.
    """
    return _Unrolling(site, frame, run, declared).results(_MOST_STEPS * _MOST_PROGRAMS)


def unroll_if_few(site: NodeSite, frame: LoopFrame, run: RunStep, declared: Sequence[object]) -> LoopResults | None:
    """The steps of a loop, as of `unroll_loop`; None, too, where their programs are too many to tell apart."""
    return _Unrolling(site, frame, run, declared).results(_MOST_PROGRAMS)


class _Unrolling:
    def __init__(self, site: NodeSite, frame: LoopFrame, run: RunStep, declared: Sequence[object]) -> None:
        self._site = site
        self._frame = frame
        self._run = run
        self._declared = declared

    def results(self, most_programs: int) -> LoopResults | None:
        frame = self._frame
        if frame.limit is not None or frame.condition is not None:
            return None
        states = tuple(frame.states)
        made: list[Sequence[GraphValue]] = []
        with self._site.builder.body() as nodes:
            while len(made) < frame.most:
                found = self._step(len(made), states)
                states = tuple(found.states)
                made.append(found.values)
                if found.goes_on is not None and found.goes_on.constant is None:
                    return None
                programs = sum(isinstance(node, Compute) for node in nodes)
                known = frame.most if found.goes_on is None else len(made)
                if known > _MOST_STEPS or programs * known > most_programs * len(made):
                    return None
                if found.goes_on is not None and not _holds(found.goes_on):
                    break
        self._site.builder.adopt(nodes)
        values = (self._stack_steps(number, made) for number in range(len(frame.places)))
        return LoopResults(states, tuple(values))

    def _step(self, step: int, states: Sequence[GraphValue]) -> StepResults:
        site = self._site
        elements = [
            _element(site, row, row.value.shape[row.axis] - 1 - step if row.backwards else step)
            for row in self._frame.elements
        ]
        number = site.constant(np.array(step, np.int64), DType.I64)
        return self._run(str(step), number, states, elements)

    def _stack_steps(self, number: int, made: Sequence[Sequence[GraphValue]]) -> GraphValue:
        """Stack what all steps gave out along a new axis."""
        site, place = self._site, self._frame.places[number]
        values = [step[number] for step in made]
        if not values:
            return _empty_steps(site, place.axis, self._declared[number])
        if len({value.type for value in values}) > 1:
            raise Unsupported("steps make values of different types, which are put together")
        if any(value.count is not None for value in values):
            raise Unsupported("steps make values with a size that only a call knows, which are put together")
        ordered = values[::-1] if place.backwards else values
        return stack_values(site, ordered, site.axis(place.axis, values[0].rank + 1))


def _holds(condition: GraphValue) -> bool:
    assert condition.constant is not None, condition
    return bool(condition.constant.reshape(-1)[0])


def _element(site: NodeSite, row: LoopElements, place: int) -> GraphValue:
    """The part of a value at a place along the axis that steps go through."""
    x, axis = row.value, row.axis
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if x.constant is not None:
        return site.constant(x.constant.take(place, axis), x.type.dtype)
    return site.view(slice_axes(site, x, {axis: (place, 1, 1)}), shape)


def _empty_steps(site: NodeSite, axis: int, declared: object) -> GraphValue:
    type_ = declared.type.tensor_type  # type: ignore[attr-defined]
    known = type_.HasField("shape") and all(dim.HasField("dim_value") for dim in type_.shape.dim)
    if not known:
        raise Unsupported("it takes no step, and nothing says the shape of what a step makes")
    dtype = element_type(type_.elem_type)
    shape = [int(dim.dim_value) for dim in type_.shape.dim]
    shape.insert(site.axis(axis, len(shape) + 1), 0)
    made = ValueType(dtype, tuple(shape))
    return site.constant(np.empty(made.shape, dtype.numpy), dtype)
