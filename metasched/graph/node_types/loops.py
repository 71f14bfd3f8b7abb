"""Loops, step by step: how many steps they take is known at load.

Each step is nodes of its own. Steps are the same programs, so they are the same tasks, however many there are; what no
step changes is computed once.
"""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import ValueType
from metasched.graph.node_types.movement import sliced, stacked
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.tensors import element_type

Results = tuple[GraphValue, ...]

# Steps that a node is taken apart into; each is a few kernels.
_MOST_STEPS = 2048


@node_type("Scan")
def scan(site: NodeSite) -> Results:
    """A step for each element of the inputs that are gone through."""
    if site.opset < 9:
        raise Unsupported("it is of an opset before 9")
    graph, count = site.required("body"), int(site.required("num_scan_inputs"))
    operands = site.operands
    if not 1 <= count <= len(operands):
        raise Unsupported(f"it goes through {count} of its {len(operands)} inputs")
    states, through = list(operands[: len(operands) - count]), operands[len(operands) - count :]
    results = len(graph.output) - len(states)
    input_axes, backwards = _numbers(site, "scan_input_axes", count), _numbers(site, "scan_input_directions", count)
    output_axes = _numbers(site, "scan_output_axes", results)
    prepended = _numbers(site, "scan_output_directions", results)
    axes = [site.axis(axis, x.rank) for axis, x in zip(input_axes, through, strict=True)]
    lengths = {x.shape[axis] for axis, x in zip(axes, through, strict=True) if x.rank}
    if len(lengths) != 1 or not all(x.rank for x in through):
        raise Unsupported(f"its inputs are not of one length: {', '.join(str(x.type) for x in through)}")
    (steps,) = lengths
    require_few(steps)
    run = site.body(graph)
    made: list[list[GraphValue]] = []
    for step in range(steps):
        places = [steps - 1 - step if is_backward else step for is_backward in backwards]
        taken = [_element(site, x, axis, place) for x, axis, place in zip(through, axes, places, strict=True)]
        found = run([*states, *taken], str(step))
        states, values = found[: len(states)], found[len(states) :]
        made.append(values)
    outputs = []
    for number, axis in enumerate(output_axes):
        values = [step[number] for step in made]
        ordered = values[::-1] if prepended[number] else values
        outputs.append(_together(site, ordered, axis, graph.output[len(states) + number]))
    return (*states, *outputs)[: len(site.wanted)]


@node_type("Loop")
def loop(site: NodeSite) -> Results:
    """Steps while a condition holds that is known at load, up to a number that is."""
    graph = site.required("body")
    limit = None if site.optional(0) is None else site.integers(0, "number of steps")[0]
    goes_on = site.optional(1) is None or bool(site.known(1, "condition").reshape(-1)[0])
    states = [site.value(number) for number in range(2, len(site.inputs))]
    if limit is None and site.optional(1) is None:
        raise Unsupported("nothing says when it ends")
    if goes_on and limit is not None and site.optional(1) is None:
        require_few(limit)
    run = site.body(graph)
    made: list[list[GraphValue]] = []
    while goes_on and (limit is None or len(made) < limit):
        require_few(len(made) + 1)
        step = site.constant(np.array(len(made), np.int64), DType.I64)
        condition, *found = run([step, site.constant(np.array(True), DType.BOOL), *states], str(len(made)))
        states, values = found[: len(states)], found[len(states) :]
        made.append(values)
        if site.optional(1) is not None:
            goes_on = _is_known_to_hold(condition)
    outputs = [
        _together(site, [step[number] for step in made], 0, declared)
        for number, declared in enumerate(graph.output[1 + len(states) :])
    ]
    return (*states, *outputs)[: len(site.wanted)]


def require_few(steps: int) -> None:
    """Raise Unsupported for more steps than a node is taken apart into."""
    if steps > _MOST_STEPS:
        raise Unsupported(f"it has {steps} steps or more, each of which is kernels of its own; {_MOST_STEPS} are taken")


def _is_known_to_hold(condition: GraphValue) -> bool:
    if condition.constant is None:
        reason = "whether it goes on is computed from data, and decides what is computed"
        raise Unsupported(reason, tuple(sorted(condition.depends)))
    return bool(condition.constant.reshape(-1)[0])


def _numbers(site: NodeSite, name: str, count: int) -> list[int]:
    """An attribute with a number for each of some values; by default 0."""
    given = site.attribute(name)
    found = [0] * count if given is None else [int(n) for n in given]
    if len(found) != count:
        raise Unsupported(f"`{name}` has {len(found)} numbers for {count} values")
    return found


def _element(site: NodeSite, x: GraphValue, axis: int, place: int) -> GraphValue:
    """What of a value is at a place along an axis."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if x.constant is not None:
        return site.constant(x.constant.take(place, axis), x.type.dtype)
    return site.view(sliced(site, x, {axis: (place, 1, 1)}), shape)


def _together(site: NodeSite, values: list[GraphValue], axis: int, declared: object) -> GraphValue:
    """What all steps made, along a new axis; `declared` is the body's output, for a loop that takes no step."""
    if not values:
        return _of_no_step(site, axis, declared)
    if len({value.type for value in values}) > 1:
        raise Unsupported("steps make values of different types, which are put together")
    return stacked(site, values, site.axis(axis, values[0].rank + 1))


def _of_no_step(site: NodeSite, axis: int, declared: object) -> GraphValue:
    type_ = declared.type.tensor_type  # type: ignore[attr-defined]
    known = type_.HasField("shape") and all(dim.HasField("dim_value") for dim in type_.shape.dim)
    if not known:
        raise Unsupported("it takes no step, and nothing says the shape of what a step makes")
    dtype = element_type(type_.elem_type)
    shape = [int(dim.dim_value) for dim in type_.shape.dim]
    shape.insert(site.axis(axis, len(shape) + 1), 0)
    made = ValueType(dtype, tuple(shape))
    return site.constant(np.empty(made.shape, dtype.numpy), dtype)
