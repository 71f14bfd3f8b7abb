"""What a search needs of a task."""

from __future__ import annotations

from typing import Protocol

from metasched.cost.core import Core
from metasched.ir.program import Program
from metasched.measure.checking.inputs import Inputs
from metasched.measure.timing import Surroundings
from metasched.search.proposal import Guesses
from metasched.search.space_protocol import SearchSpace
from metasched.target import Target


class SearchableTask(Protocol):
    """What a search needs of a task; `metasched.search.task.Task` provides it."""

    @property
    def program(self) -> Program: ...

    @property
    def target(self) -> Target: ...

    @property
    def core(self) -> Core:
        """What operations of one of the CPU's cores cost, for features."""
        ...

    @property
    def inputs(self) -> Inputs | None:
        """The data of arguments, by name."""
        ...

    @property
    def surroundings(self) -> Surroundings:
        """What kernels are timed in."""
        ...

    @property
    def arms(self) -> SearchSpace:
        """The space, made at first use."""
        ...

    def guesses(self) -> Guesses:
        """The guesses: schedules chosen without measuring."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text by which equal spaces are known."""
        ...
