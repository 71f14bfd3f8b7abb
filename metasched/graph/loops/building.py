"""A loop as a node of a graph: its body is imported once, for a step whose number nobody knows yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue, ValueCount
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Graph, LoopNode
from metasched.graph.loop_node import ENDLESS, LoopInput, LoopInputKind, LoopOutput, LoopOutputKind
from metasched.graph.node_helpers.moved_elements import mirror_axis, transpose_axes
from metasched.graph.site import NodeSite
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

# What is in names of nodes in place of the number of a step.
STEP = "step"
_GOES_ON = "goes_on"
_NUMBER = ValueType(DType.I64, ())


@dataclass(frozen=True)
class LoopElements:
    """A value that steps read one element of along an axis; `backwards`: from the last to the first."""

    value: GraphValue
    axis: int = 0
    backwards: bool = False


@dataclass(frozen=True)
class LoopPlaces:
    """Where what steps give out is put: along a new axis, which may count from the end; `backwards`: from the last
    place to the first.
    """

    axis: int = 0
    backwards: bool = False


@dataclass(frozen=True)
class LoopFrame:
    """What a loop begins with, and what it goes through.

    Attributes:
        states: what the body's states are in the first step.
        elements: values that steps go through.
        places: for each value that steps give out, where it is put.
        most: the most steps that there may be.
        limit: a number of steps that data say, the most there are then.
        condition: whether there is a first step, where data say it.

    """

    states: Sequence[GraphValue]
    elements: Sequence[LoopElements] = ()
    places: Sequence[LoopPlaces] = ()
    most: int = ENDLESS
    limit: GraphValue | None = None
    condition: GraphValue | None = None


@dataclass(frozen=True)
class StepResults:
    """What a step makes: its states for the next, what it gives out, and whether there is another."""

    states: Sequence[GraphValue]
    values: Sequence[GraphValue]
    goes_on: GraphValue | None = None


# Imports a step under a name, for its number, its states and its elements.
RunStep: TypeAlias = Callable[[str, GraphValue, Sequence[GraphValue], Sequence[GraphValue]], StepResults]


@dataclass(frozen=True)
class LoopResults:
    """What a loop gives: its states after the last step, and for each value that steps give out all of them."""

    states: tuple[GraphValue, ...]
    values: tuple[GraphValue, ...]


def add_loop(site: NodeSite, frame: LoopFrame, run: RunStep) -> LoopResults:
    """Add a loop to the graph that is made.

    Raises Unsupported where a state is of another type after a step, and for values that steps give out where nobody
    knows how many steps there are at most.
    """
    return _LoopBuilder(site, frame, run).results()


def add_forward_loop(site: NodeSite, frame: LoopFrame, run: RunStep) -> LoopResults:
    """Add a loop, as `add_loop` does, that begins with the first of what it goes through: only a call may know then how
    many steps there are. Raises Unsupported as that does.
    """
    elements = [
        replace(row, value=_if_backwards(site, row.backwards, row.value, row.axis), backwards=False)
        for row in frame.elements
    ]
    places = [replace(place, backwards=False) for place in frame.places]
    found = add_loop(site, replace(frame, elements=elements, places=places), run)
    values = (
        _if_backwards(site, place.backwards, value, site.axis(place.axis, value.rank))
        for place, value in zip(frame.places, found.values, strict=True)
    )
    return LoopResults(found.states, tuple(values))


def _if_backwards(site: NodeSite, backwards: bool, value: GraphValue, axis: int) -> GraphValue:
    return mirror_axis(site, value, axis) if backwards else value


class _LoopBuilder:
    def __init__(self, site: NodeSite, frame: LoopFrame, run: RunStep) -> None:
        if any(state.elements is not None for state in frame.states):
            raise Unsupported(
                "a state is a sequence, which has to be taken apart: only steps known at load can be. A tensor that "
                "steps put rows behind, `res = torch.cat([res, rows])`, may be a state of others"
            )
        self._site = site
        self._frame = frame
        builder, like = site.builder, site.origin.value
        self._wholes = [_move_axis_first(site, row) for row in frame.elements]
        asked = [frame.limit, frame.condition, *frame.states, *self._wholes]
        self._depends = frozenset[str]().union(*(value.depends for value in asked if value is not None))
        self._counter = builder.parameter(f"{like}.step", _NUMBER, self._depends)
        self._states = [builder.parameter(f"{like}.state", x.type, self._depends) for x in frame.states]
        self._elements = [
            builder.parameter(f"{like}.element", replace(x.type, shape=x.shape[1:]), self._depends)
            for x in self._wholes
        ]
        with builder.body() as nodes:
            self._made = run(STEP, self._counter, self._states, self._elements)
        self._nodes = tuple(nodes)
        self._most = frame.most
        self._goes_on = self._made.goes_on
        if self._goes_on is not None and self._goes_on.constant is not None:
            self._most = self._most if self._goes_on.constant.reshape(-1)[0] else min(self._most, 1)
            self._goes_on = None
        self._require_types()

    def _require_types(self) -> None:
        for state, after in zip(self._states, self._made.states, strict=True):
            if after.type != state.type:
                # Where the number of steps is known, each is taken apart, and makes what it makes.
                reason = f"a state begins as {state.type}, and a step makes {after.type} of it"
                raise Unsupported(reason, self._deciding_inputs())
        if self._made.values and self._most == ENDLESS:
            reason = (
                "what its steps give out has the size of their number, which only a call knows, and nothing says how "
                "many there are at most: bound that number in the model by a constant, as `range(min(n, 64))` does"
            )
            raise Unsupported(reason, self._deciding_inputs())
        for value in (*self._made.states, *self._made.values):
            if value.count is not None:
                raise Unsupported(f"`{value.name}` has a size that only a call knows, and is what a step makes")

    def _deciding_inputs(self) -> tuple[str, ...]:
        """The inputs of the network that decide how many steps there are."""
        decide = (self._frame.limit, self._frame.condition, self._goes_on)
        return tuple(sorted(frozenset[str]().union(*(value.depends for value in decide if value is not None))))

    def results(self) -> LoopResults:
        loop = self._loop()
        types = [own.type for own in self._states]
        types += [ValueType(x.type.dtype, (self._most, *x.shape)) for x in self._made.values]
        depends = self._depends.union(*(value.depends for value in (*self._made.states, *self._made.values)))
        is_counted = bool(self._made.values) and loop.is_ended_by_data
        if is_counted:
            gives, outputs = (LoopOutput(LoopOutputKind.STEPS),), (f"{self._site.origin.value}.steps",)
            loop = replace(loop, gives=(*gives, *loop.gives), outputs=(*outputs, *loop.outputs))
            count, *found = self._site.builder.loop(loop, [_NUMBER, *types], depends)
            states, values = found[: len(self._states)], found[len(self._states) :]
            values = [replace(value, count=ValueCount(count)) for value in values]
        else:
            found = self._site.builder.loop(loop, types, depends)
            states, values = found[: len(self._states)], found[len(self._states) :]
        values = [self._move_to_axis(value, place) for value, place in zip(values, self._frame.places, strict=True)]
        return LoopResults(tuple(states), tuple(values))

    def _move_to_axis(self, value: GraphValue, place: LoopPlaces) -> GraphValue:
        """Move what steps gave out to the axis that is asked for."""
        axis = self._site.axis(place.axis, value.rank)
        if axis and value.count is not None:
            raise Unsupported("what its steps give out has a size that only a call knows, and not as its first one")
        others = list(range(1, value.rank))
        return transpose_axes(self._site, value, [*others[:axis], 0, *others[axis:]])

    def _loop(self) -> LoopNode:
        """The loop, whose outputs are named after the node's."""
        body, around = self._body()
        frame, kinds = self._frame, LoopInputKind
        takes: list[tuple[str, LoopInput]] = []
        takes += [(x.name, LoopInput(kinds.LIMIT)) for x in [frame.limit] if x is not None]
        takes += [(x.name, LoopInput(kinds.CONDITION)) for x in [frame.condition] if x is not None]
        takes += [(x.name, LoopInput(kinds.STATE, own.name)) for x, own in zip(frame.states, self._states, strict=True)]
        takes += [
            (x.name, LoopInput(kinds.ELEMENTS, own.name, row.backwards))
            for x, row, own in zip(self._wholes, frame.elements, self._elements, strict=True)
        ]
        takes += [(name, LoopInput(kinds.WHOLE, name)) for name in around]
        gives = [LoopOutput(LoopOutputKind.STATE, own.name) for own in self._states]
        gives += [
            LoopOutput(LoopOutputKind.ELEMENTS, _element_label(n), place.backwards)
            for n, place in enumerate(frame.places)
        ]
        origin = self._site.origin
        inputs, reads = (tuple(each) for each in zip(*takes, strict=True)) if takes else ((), ())
        loop = LoopNode(
            name=origin.node,
            op=origin.op,
            body=body,
            inputs=inputs,
            outputs=(origin.value,) * len(gives),
            takes=reads,
            gives=tuple(gives),
            most=self._most,
            counter=self._counter.name,
            goes_on=_GOES_ON if self._goes_on is not None else "",
        )
        return drop_unread_inputs(loop)

    def _body(self) -> tuple[Graph, tuple[str, ...]]:
        outputs = {} if self._goes_on is None else {_GOES_ON: self._goes_on}
        states = {own.name: f"next {own.name}" for own in self._states}
        outputs |= dict(zip(states.values(), self._made.states, strict=True))
        outputs |= {_element_label(n): value for n, value in enumerate(self._made.values)}
        parameters = [self._counter, *self._states, *self._elements]
        return self._site.builder.body_graph(self._site.origin, self._nodes, parameters, outputs, states)


def _move_axis_first(site: NodeSite, row: LoopElements) -> GraphValue:
    """A value with the axis that steps go through as its first."""
    others = [axis for axis in range(row.value.rank) if axis != row.axis]
    return transpose_axes(site, row.value, [row.axis, *others])


def _element_label(number: int) -> str:
    """The label of what each step gives out, by its number."""
    return f"element {number}"


def drop_unread_inputs(loop: LoopNode) -> LoopNode:
    """A loop without inputs that its body does not read, and a body without those."""
    body = loop.body
    read = {*(name for node in body.nodes for name in node.inputs), *(name for _, name in body.outputs)}
    read.update(part.position.input for part in body.parts.values() if part.position is not None)
    needless = {
        own.body
        for own in loop.takes
        if own.kind in (LoopInputKind.ELEMENTS, LoopInputKind.WHOLE) and own.body not in read
    }
    counter = loop.counter if loop.counter in read else ""
    if not needless and counter == loop.counter:
        return loop
    pairs = [(name, own) for name, own in zip(loop.inputs, loop.takes, strict=True) if own.body not in needless]
    needless |= {loop.counter} - {counter}
    inputs = tuple(name for name in body.inputs if name not in needless)
    types = {name: type_ for name, type_ in body.types.items() if name not in needless}
    return replace(
        loop,
        body=replace(body, inputs=inputs, types=types),
        inputs=tuple(name for name, _ in pairs),
        takes=tuple(own for _, own in pairs),
        counter=counter,
    )
