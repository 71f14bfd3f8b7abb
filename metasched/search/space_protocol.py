"""What a search strategy sees of a space: a few parametric programs, each a set of integer rows.

A strategy knows nothing of schedules. It draws, changes and scores rows, and names the ones to measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from metasched.cost.features import Features
from metasched.schedule.trace_outline import Outline

Rows = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Arm(Protocol):
    """One structure of the program, with its numbers left free.

    A row is int64 of shape (len(columns),). `groups` are the columns of each random variable, by position, in the
    order they are drawn: crossover keeps a group together.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]: ...

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        """`count` draws from the prior, (count, columns)."""
        ...

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """Each row with a variable or so changed; may leave the support."""
        ...

    def repair(self, rows: Rows) -> Rows:
        """Each row moved into the support, in the order of the variables; deterministic."""
        ...

    def mask(self, rows: Rows) -> Mask:
        """Whether each row meets the constraints under which the program is legal."""
        ...

    def features(self, rows: Rows) -> Features: ...


@dataclass(frozen=True)
class Candidate:
    """A row of an arm."""

    arm: int
    row: tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """What measuring a candidate gave: seconds per call, None after a failure.

    Where `bound` holds it takes at least so long: it lost a race, and was not timed to the end.
    """

    candidate: Candidate
    seconds: float | None
    bound: bool = False


class Strategy(Protocol):
    """Chooses what to measure.

    `propose` depends on the seed and on what was observed, in order, and on nothing else: not on time, threads or
    earlier proposals. It returns fewer than asked for, or none, when it finds nothing new.
    """

    def propose(self, count: int) -> list[Candidate]: ...

    def observe(self, results: Sequence[Observation]) -> None: ...


class SearchSpace(Protocol):
    """A program's space, as the tuning loop sees it."""

    @property
    def arms(self) -> Sequence[Arm]: ...

    def trace(self, candidate: Candidate) -> str:
        """The candidate's trace as text. Raises `ScheduleError` when it is not legal after all."""
        ...

    def locate(self, trace: str) -> Candidate | None:
        """The candidate of which `trace` returns this text; None for a trace that is not of this space."""
        ...

    def locate_all(self, outlines: Sequence[Outline]) -> list[Candidate | None]:
        """The candidates of which `trace` returns a text of these outlines; None for those of other spaces."""
        ...
