"""What a loop's inputs and outputs are, and how many steps it is taken to run."""

from __future__ import annotations

from enum import Enum

from metasched.support.data_classes import dataclass

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
