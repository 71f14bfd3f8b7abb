"""What a search strategy sees of a space: parametric programs, made on demand, each a set of integer rows.

A strategy knows nothing of schedules. It asks for arms, draws, changes and scores their rows, and names the ones to
measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from metasched.cost.features import Features
from metasched.lang.instructions import Decision
from metasched.schedule.trace_outline import Outline
from metasched.support.data_classes import dataclass

Rows = np.ndarray[Any, np.dtype[np.int64]]
# The text of the trace that has the outline at a position; None where it is not to be had.
TextOf = Callable[[int], str | None]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Arm(Protocol):
    """One structure of the program, with its numbers left free.

    A row is int64 of shape (len(columns),). `groups` are the columns of each random variable, by position, in the
    order they are drawn: crossover keeps a group together. `name` is its structure, the same in every process.
    """

    @property
    def name(self) -> str: ...

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

    def adopt(self, rng: np.random.Generator, other: Any, rows: Rows) -> Rows:
        """The rows of another arm of the same space, with what is common to both kept and the rest drawn; may leave the
        support.
        """
        ...


@dataclass(frozen=True)
class StructuralChoice:
    """A structural decision of an arm: its address, what could be decided there, and the position of what was."""

    address: str
    options: tuple[Decision, ...]
    taken: int


class Arms(Protocol):
    """The structures of a space, each an arm that is made when it is first asked for.

    An arm's number is its position among those made so far. It says nothing else, and in another process the same arm
    has another: what a strategy proposes must not depend on it. What is made depends on `rng`, and on nothing made
    before. Each returns None where no arm comes of it.
    """

    def __len__(self) -> int:
        """How many were made so far."""
        ...

    def __getitem__(self, number: int) -> Arm: ...

    def first(self) -> int | None:
        """The first structure of the space; None if the space is empty."""
        ...

    def known(self) -> Sequence[int]:
        """Structures of which something good is known beforehand, the most promising first."""
        ...

    def draw(self, rng: np.random.Generator) -> int | None:
        """A structure from the prior."""
        ...

    def mutate(self, rng: np.random.Generator, arm: int) -> int | None:
        """A structure with one decision changed; what that makes impossible is repaired."""
        ...

    def cross(self, rng: np.random.Generator, mother: int, father: int) -> int | None:
        """A structure with decisions of two others."""
        ...

    def choices(self, arm: int) -> Sequence[StructuralChoice]:
        """The decisions of an arm between several options, in the order in which they were made.

        What they are depends on those before them alone: two arms that decide alike up to there have the same next one.
        """
        ...

    def of(self, rng: np.random.Generator, decisions: Mapping[str, Decision]) -> int | None:
        """A structure with decisions by address; what they make impossible is repaired, what is missing is drawn."""
        ...


@dataclass(frozen=True)
class Candidate:
    """What a strategy proposes to measure: one choice of all numbers in one structure.

    Attributes:
        arm: the index of the structure (sketch) among the arms of the search.
        row: an integer for each of its random variables, in the order of the arm's columns.
    """

    arm: int
    row: tuple[int, ...]


@dataclass(frozen=True)
class Observation:
    """What measuring a candidate gave.

    Attributes:
        candidate: what was measured.
        seconds: the time of a call; None after a failure.
        bound: whether it takes at least so long: it lost a race, and was not timed to the end.
    """

    candidate: Candidate
    seconds: float | None
    bound: bool = False


class Strategy(Protocol):
    """Chooses what to measure.

    `propose` depends on the seed and on what was observed, in order and by one `observe` a batch, and on nothing else:
    not on time, threads or earlier proposals. That is how a search is resumed: a new strategy observes the recorded
    batches, without being asked for proposals, and then proposes what an uninterrupted one would have. So a strategy
    may keep what it can work out from its observations again; what it keeps of its own walks, it walks again
    (`search/strategy_helpers/walk_states.py`). It never proposes a candidate twice in a batch, nor one that was
    observed. It returns fewer than asked for, or none, when it finds nothing new: then the space is taken to be
    exhausted. Of more, the first are taken.
    """

    def propose(self, count: int) -> list[Candidate]: ...

    def observe(self, results: Sequence[Observation]) -> None: ...


@runtime_checkable
class LooksAhead(Protocol):
    """A strategy that can do a part of the work for the next batch before the times of the last one are known.

    What it proposes is the same whether `look_ahead` was called or not: else it does that part later.
    """

    def look_ahead(self) -> None:
        """Do what needs no results of the batch proposed last; called while that is built, before `observe`."""
        ...


@runtime_checkable
class ProposesInParts(Protocol):
    """A strategy that has chosen some of a batch before it has looked for the rest, so that it is built meanwhile."""

    def propose_in_parts(self, count: int) -> Iterator[list[Candidate]]:
        """What `propose` returns, in its order, a part as soon as it is chosen."""
        ...


class SearchSpace(Protocol):
    """A program's space, as the tuning loop sees it."""

    @property
    def arms(self) -> Arms: ...

    @property
    def refused(self) -> Mapping[str, int]:
        """How many structures could not be made for each reason."""
        ...

    def trace(self, candidate: Candidate) -> str:
        """The candidate's trace as text. Raises `ScheduleError` when it is not legal after all."""
        ...

    def locate(self, trace: str) -> Candidate | None:
        """The candidate of which `trace` returns this text; None for a trace that is not of this space."""
        ...

    def locate_all(self, outlines: Sequence[Outline], text_of: TextOf) -> list[Candidate | None]:
        """The candidates of which `trace` returns a text of these outlines; None for those of other spaces.

        `text_of` is asked for one trace of each structure that was not met before.
        """
        ...
