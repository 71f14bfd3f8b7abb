"""A node that runs a graph again and again: its body, what that reads of the graph around it, and what it gives back.

The body is a graph like any other, and passes rewrite it like any other: nothing of one side of its inputs and outputs
is joined with anything of the other. What a step leaves to the next are the body's states (`Graph.states`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from metasched.dtypes import DType

if TYPE_CHECKING:
    from metasched.graph.ir import Graph, ValueType

# More steps than any loop takes.
ENDLESS = 2**63 - 1
# How many steps a loop is taken to run that data may end: for what its kernels are worth, and where it runs on inputs
# that mean nothing.
ASSUMED_STEPS = 32


class LoopInputKind(Enum):
    """What a loop does with an input."""

    LIMIT = "limit"  # the most steps, one whole number
    CONDITION = "condition"  # whether it takes the first step
    STATE = "state"  # what a state of the body is in the first step
    ELEMENTS = "elements"  # each step reads one element along the first dimension
    WHOLE = "whole"  # each step reads all of it


class LoopOutputKind(Enum):
    """What an output of a loop is."""

    STEPS = "steps"  # how many steps ran, one whole number
    STATE = "state"  # what a state of the body is after the last step
    ELEMENTS = "elements"  # what the steps made of an output of the body, along a new first dimension


@dataclass(frozen=True)
class LoopInput:
    """An input of a loop: `body` is the input of its body that has it, '' for none; `backwards` says whether elements
    are gone through from the last to the first.
    """

    kind: LoopInputKind
    body: str = ""
    backwards: bool = False


@dataclass(frozen=True)
class LoopOutput:
    """An output of a loop: `body` is the body's input that is the state, or the label of its output that has an
    element; `backwards` says whether elements are put from the last place to the first.
    """

    kind: LoopOutputKind
    body: str = ""
    backwards: bool = False


@dataclass(frozen=True, eq=False)
class Loop:
    """A node that runs its body for each step, while a condition holds and up to a number of steps.

    Attributes:
        name: the node of the model that it comes from.
        op: that node's type.
        body: what a step computes. Its inputs are those that `takes` names, and `counter`.
        inputs: values of the graph around it.
        outputs: values of the graph around it.
        takes: what each input is.
        gives: what each output is.
        most: the most steps that it takes whatever its inputs are; ENDLESS where they alone end it.
        counter: the body's input that is the number of the step, from 0 on; '' where it reads none.
        goes_on: the label of the body's output that says whether there is another step; '' where nothing does.

    """

    name: str
    op: str
    body: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    takes: tuple[LoopInput, ...]
    gives: tuple[LoopOutput, ...]
    most: int = ENDLESS
    counter: str = ""
    goes_on: str = ""

    def input_of(self, kind: LoopInputKind) -> str | None:
        """The first input of a kind."""
        return next((name for name, own in zip(self.inputs, self.takes, strict=True) if own.kind is kind), None)

    def taken(self, kind: LoopInputKind) -> Iterator[tuple[str, LoopInput]]:
        """The inputs of a kind."""
        return ((name, own) for name, own in zip(self.inputs, self.takes, strict=True) if own.kind is kind)

    def given(self, kind: LoopOutputKind) -> Iterator[tuple[str, LoopOutput]]:
        """The outputs of a kind."""
        return ((name, own) for name, own in zip(self.outputs, self.gives, strict=True) if own.kind is kind)

    @property
    def is_ended_by_data(self) -> bool:
        """Whether it may take fewer steps than `most`."""
        asked = (LoopInputKind.LIMIT, LoopInputKind.CONDITION)
        return bool(self.goes_on) or any(own.kind in asked for own in self.takes)

    @property
    def assumed_steps(self) -> int:
        """How many steps it is taken to run where nobody runs it."""
        return min(self.most, ASSUMED_STEPS) if self.is_ended_by_data else self.most

    def defects(self, around: Graph) -> Iterator[str]:
        """What of it is not well formed in a graph whose values it reads."""
        if len(self.inputs) != len(self.takes) or len(self.outputs) != len(self.gives):
            yield "it has not as many inputs and outputs as it says what they are"
            return
        body, labels = self.body, dict(self.body.outputs)
        named = [own.body for own in self.takes if own.body] + [self.counter] * bool(self.counter)
        if sorted(named) != sorted(body.inputs):
            yield f"its body has the inputs {sorted(body.inputs)}, and is given {sorted(named)}"
            return
        if {own.body for _, own in self.taken(LoopInputKind.STATE)} != body.states.keys():
            yield f"its body has the states {sorted(body.states)}, which are others than begin"
            return
        if self.goes_on and (self.goes_on not in labels or not _is_one(body.types[labels[self.goes_on]], DType.BOOL)):
            yield f"`{self.goes_on}` of its body is no condition"
        yield from self._unlike(around, [around.types[name] for name in self.inputs])

    def _unlike(self, around: Graph, types: Sequence[ValueType]) -> Iterator[str]:
        """Inputs and outputs of other types than the body says."""
        body, labels = self.body, dict(self.body.outputs)
        for name, own, have in zip(self.inputs, self.takes, types, strict=True):
            if own.kind is LoopInputKind.LIMIT:
                fits = _is_one(have, DType.I64)
            elif own.kind is LoopInputKind.CONDITION:
                fits = _is_one(have, DType.BOOL)
            elif own.kind is LoopInputKind.ELEMENTS:
                fits = self._is_row(have, body.types[own.body])
            else:
                fits = have == body.types[own.body]
            if not fits:
                yield f"its {own.kind.value} `{name}` is {have}"
        for name, made in zip(self.outputs, self.gives, strict=True):
            have = around.types[name]
            if made.kind is LoopOutputKind.STEPS:
                fits = _is_one(have, DType.I64)
            elif made.kind is LoopOutputKind.STATE:
                fits = have == body.types[made.body]
            else:
                fits = self._is_row(have, body.types[labels[made.body]])
            if not fits:
                yield f"its {made.kind.value} `{name}` is {have}"

    def _is_row(self, whole: ValueType, element: ValueType) -> bool:
        return whole.dtype is element.dtype and whole.shape == (self.most, *element.shape)


def _is_one(type_: ValueType, dtype: DType) -> bool:
    return type_.dtype is dtype and type_.size == 1
