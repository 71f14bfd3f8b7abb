"""Loops: of few steps, each step is nodes of its own; others are nodes that run a graph.

How many steps there are may be computed from data. What no step changes is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.counted.joined_rows import join_rows
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.counted.size_arithmetic import multiply_number, room_of
from metasched.graph.errors import Unsupported
from metasched.graph.loop_node import ENDLESS
from metasched.graph.loops.appended_states import appended_states, drop_appended_states
from metasched.graph.loops.building import (
    LoopElements,
    LoopFrame,
    LoopPlaces,
    LoopResults,
    RunStep,
    StepResults,
    add_forward_loop,
    add_loop,
)
from metasched.graph.loops.unrolled import unroll_if_few, unroll_loop
from metasched.graph.node_helpers.greatest_numbers import greatest_number
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite

Results = tuple[GraphValue | None, ...]

# Inputs of a loop's body before its states: the number of the step, and the condition.
_OWN_INPUTS = 2


@node_type("Scan")
def scan(site: NodeSite) -> Results:
    """A step for each element of the inputs that are gone through."""
    if site.opset < 9:
        raise Unsupported("it is of an opset before 9")
    graph, count = site.require_attribute("body"), int(site.require_attribute("num_scan_inputs"))
    operands = site.operands
    if not 1 <= count <= len(operands):
        raise Unsupported(f"it goes through {count} of its {len(operands)} inputs")
    states, through = operands[: len(operands) - count], operands[len(operands) - count :]
    wanted = [n for n in range(len(graph.output) - len(states)) if site.wants(len(states) + n)]
    input_axes, backwards = _numbers(site, "scan_input_axes", count), _numbers(site, "scan_input_directions", count)
    results = len(graph.output) - len(states)
    output_axes = _numbers(site, "scan_output_axes", results)
    prepended = _numbers(site, "scan_output_directions", results)
    axes = [site.axis(axis, x.rank) for axis, x in zip(input_axes, through, strict=True)]
    lengths = {x.shape[axis] for axis, x in zip(axes, through, strict=True) if x.rank}
    if len(lengths) != 1 or not all(x.rank for x in through):
        raise Unsupported(f"its inputs are not of one length: {', '.join(str(x.type) for x in through)}")
    (steps,) = lengths
    fixed = _unchanged_states(graph, 0, 0, states)
    run = site.graphs.body(graph, fixed)

    def step(name: str, _: GraphValue, states: Sequence[GraphValue], elements: Sequence[GraphValue]) -> StepResults:
        found = run([*states, *elements], name)
        return StepResults(found[: len(states)], [found[len(states) + n] for n in wanted])

    frame = LoopFrame(
        states,
        [LoopElements(x, axis, bool(back)) for x, axis, back in zip(through, axes, backwards, strict=True)],
        [LoopPlaces(output_axes[n], bool(prepended[n])) for n in wanted],
        steps,
    )
    return _outputs(site, build_loop(site, frame, step, [graph.output[len(states) + n] for n in wanted]), wanted)


@node_type("Loop", counts=True)
def loop(site: NodeSite) -> Results:
    """Steps while a condition holds, up to a number of steps: both may be known at load, or computed from data."""
    graph = site.require_attribute("body")
    limit, condition = site.optional(0), site.optional(1)
    states = [site.value(number) for number in range(2, len(site.inputs))]
    if limit is None and condition is None:
        raise Unsupported("nothing says when it ends")
    most = ENDLESS
    if limit is not None and limit.constant is not None:
        most, limit = max(site.integers(0, "number of steps")[0], 0), None
    elif limit is not None and limit.sizes is not None:
        most = room_of(limit.sizes.reshape(-1).tolist())[0]
    elif limit is not None and (greatest := greatest_number(site.builder, limit.name)) is not None:
        most = max(greatest, 0)
    has_condition = condition is not None
    if condition is not None and condition.constant is not None:
        most, condition = (most if condition.constant.reshape(-1)[0] else 0), None
    if most == 0:
        limit = condition = None
    frame = LoopFrame(states, (), (), most, limit, condition)
    if limit is not None or condition is not None:
        lists = _Lists(graph, len(states))
        if lists.found:
            return _build_list_loop(site, lists, frame, has_condition=has_condition)
    return run_on_rows(lambda own: _build_state_loop(own, graph, frame, has_condition=has_condition), site)


class _Lists:
    """The states of a loop's body that steps put rows behind."""

    def __init__(self, graph: Any, states: int) -> None:
        before = [value.name for value in graph.input[_OWN_INPUTS : _OWN_INPUTS + states]]
        after = [value.name for value in graph.output[1 : 1 + states]]
        self.found = appended_states(graph, before, after)
        self.graph = drop_appended_states(graph, before, after, self.found)


def _build_list_loop(site: NodeSite, lists: _Lists, frame: LoopFrame, *, has_condition: bool) -> Results:
    """The outputs of a loop that data end, whose steps put rows behind states: they give these out instead."""
    numbers, count = {one.number for one in lists.found}, len(lists.found)
    others = [state for number, state in enumerate(frame.states) if number not in numbers]
    for state in others:
        if state.count is not None:
            raise Unsupported(f"a state begins as {state.type}, of which data decide how many elements there are")
    given = [wanted for number, wanted in enumerate(site.wanted) if number not in numbers]
    given += [False] * (len(lists.graph.output) - 1 - count - len(given)) + [True] * count
    inner = replace(site, wanted=tuple(given))
    made = list(_build_state_loop(inner, lists.graph, replace(frame, states=others), has_condition=has_condition))
    rows = made[len(made) - count :]
    del made[len(made) - count :]
    for one, steps in zip(lists.found, rows, strict=True):
        assert steps is not None, one
        made.insert(one.number, _behind(site, frame.states[one.number], steps))
    return tuple(made[: len(site.wanted)])


def _behind(site: NodeSite, first: GraphValue, steps: GraphValue) -> GraphValue:
    """What a list began with, and behind it the rows of all steps."""
    if steps.rank != first.rank + 1 or steps.type.dtype is not first.type.dtype:
        raise Unsupported(f"a state begins as {first.type}, and steps put {steps.type} behind it")
    most, rows = steps.shape[:2]
    whole = site.view(steps, (most * rows, *steps.shape[2:]))
    if steps.count is not None:
        whole = replace(whole, count=ValueCount(multiply_number(site, steps.count.number, rows)))
    if whole.shape[1:] != first.shape[1:]:
        raise Unsupported(f"a state begins as {first.type}, and each step puts {whole.type} behind it")
    return join_rows(site, [first, whole] if first.type.size else [whole], 0)


def _build_state_loop(site: NodeSite, graph: Any, frame: LoopFrame, *, has_condition: bool) -> Results:
    """The outputs of a loop whose states keep their types, or whose steps are known."""
    states = frame.states
    wanted = [n for n in range(len(graph.output) - 1 - len(states)) if site.wants(len(states) + n)]
    run = site.graphs.body(graph, _unchanged_states(graph, _OWN_INPUTS, 1, states))
    holds = site.constant(np.array(True), DType.BOOL)

    def step(name: str, number: GraphValue, states: Sequence[GraphValue], _: Sequence[GraphValue]) -> StepResults:
        goes_on, *found = run([number, holds, *states], name)
        values = [found[len(states) + n] for n in wanted]
        return StepResults(found[: len(states)], values, goes_on if has_condition else None)

    whole = replace(frame, places=[LoopPlaces()] * len(wanted))
    declared = [graph.output[1 + len(states) + n] for n in wanted]
    return _outputs(site, build_loop(site, whole, step, declared), wanted)


def _outputs(site: NodeSite, found: LoopResults, wanted: Sequence[int]) -> Results:
    """The outputs of a node: states, and of what steps give out that which is wanted."""
    values = dict(zip(wanted, found.values, strict=True))
    given = (values.get(n) for n in range(len(site.wanted) - len(found.states)))
    return (*found.states, *given)[: len(site.wanted)]


def build_loop(site: NodeSite, frame: LoopFrame, step: RunStep, declared: Sequence[object]) -> LoopResults:
    """A loop in the way that suits it: its steps one by one where they are few, else its body once.

    One whose body has sizes that steps change has to be taken apart, if how many steps there are is known. In a graph
    that is compared with those of other sizes, elements may be of another number: then it is a loop.
    """
    if site.builder.is_compared and frame.elements:
        found = site.graphs.attempt(lambda: add_forward_loop(site, frame, step))
    else:
        found = unroll_if_few(site, frame, step, declared)
    if found is None:
        found = site.graphs.attempt(lambda: add_loop(site, frame, step))
    if found is None:
        found = unroll_loop(site, frame, step, declared)
    return add_loop(site, frame, step) if found is None else found


def _unchanged_states(graph: Any, first: int, first_output: int, states: Sequence[GraphValue]) -> dict[str, GraphValue]:
    """The states of a body that each step gives on as they are, by the body's inputs that have them.

    `first` and `first_output` are the numbers of the first state among its inputs and outputs.
    """
    same = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Identity"}
    found: dict[str, GraphValue] = {}
    for number, value in enumerate(states):
        name, own = graph.output[first_output + number].name, graph.input[first + number].name
        while name in same:
            name = same[name]
        if name == own:
            found[own] = value
    return found


def _numbers(site: NodeSite, name: str, count: int) -> list[int]:
    """An attribute with a number for each of some values; by default 0."""
    given = site.attribute(name)
    found = [0] * count if given is None else [int(n) for n in given]
    if len(found) != count:
        raise Unsupported(f"`{name}` has {len(found)} numbers for {count} values")
    return found
