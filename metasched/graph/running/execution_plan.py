"""What a call of a network runs, as data: kernels, where arguments lie, what becomes of outputs and states.

A place is a number of bytes from the address of a *root* on: those of the arena, of the weights, of each input, of each
output that a step writes, of each part of a state that begins at a position, and those that loops move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from metasched.errors import KernelError
from metasched.graph.code.step_code import StepCode
from metasched.graph.ir import Array
from metasched.graph.placement import Position
from metasched.graph.running.plan import Arena
from metasched.graph.value_type import ValueType
from metasched.runtime.addresses import data_pointer
from metasched.support.data_classes import dataclass

ARENA, WEIGHTS, FIRST = range(3)


class TableAction(IntEnum):
    """What an entry of a table does that runs no kernel; see `compiler.cpu.emit.step_actions`. All are negative."""

    LOOP = -1
    COPY = -2
    STORE = -3
    POINT = -4
    ADVANCE = -5
    SWAP = -6
    PLACE = -7


class RootOffset(NamedTuple):
    """Where a value is: the number of a root, and the bytes from its address on."""

    root: int
    offset: int


@dataclass(frozen=True)
class StepInfo:
    """What a step is, for messages and profiles: a node of the graph, its task, its schedule as text (None as it is
    written) and where that comes from.
    """

    node: str
    op: str
    task: str
    schedule: str | None
    origin: str


class ResultCount(NamedTuple):
    """The place that says how many elements an output has along a dimension."""

    place: RootOffset
    axis: int


@dataclass(frozen=True)
class NetworkResult:
    """An output: a new array that a step writes (its root's number), or a copy of a value; `count` says how many
    elements it has, if a call decides that.
    """

    type: ValueType
    written: int | None
    copied: RootOffset | None
    count: ResultCount | None = None


@dataclass(frozen=True)
class MovedPart:
    """A part of a state that begins at a position: inputs by their numbers, places in bytes."""

    state: int
    name: str
    offset: int
    input: int
    position: Position
    step: int

    def address(self, inputs: Sequence[Array]) -> int:
        """Raises KernelError for a position at which there is no room."""
        position = int(inputs[self.input].reshape(-1)[0])
        lowest, highest = self.position.lowest, self.position.highest
        if not lowest <= position <= highest:
            raise KernelError(
                f"`{self.position.input}` is {position}; the state `{self.name}` has room for {lowest} to {highest}"
            )
        return data_pointer(inputs[self.state]) + self.offset + position * self.step


@dataclass(frozen=True)
class KeptState:
    """What is copied to a state after a run: the state's root, where it is found, and how many bytes it has."""

    root: int
    found: RootOffset
    nbytes: int


@dataclass(frozen=True)
class ExecutionPlan:
    """All that running the steps takes besides the weights: what an export writes, and what is kept on disk.

    Attributes:
        inputs: names and types, in order; their roots follow those of the arena and of the weights.
        outputs: the same of outputs; the roots of those that steps write follow.
        results: how each output that a run returns comes about.
        arena: the plan of its memory between inputs and outputs, `weight_bytes` the size of the weights.
        codes: the machine code of the kernels.
        infos: what each entry of the table is.
        steps: for each entry, the number of its kernel among `codes`, or what else it does.
        places: where each entry's arguments are.
        numbers: those that each entry takes besides; none for a kernel.
        kept: states that are not computed where they are.
        moved: parts of states that begin at a position; their roots follow those of outputs.
        moving: how many roots loops move; they come last.

    """

    inputs: tuple[tuple[str, ValueType], ...]
    outputs: tuple[tuple[str, ValueType], ...]
    results: tuple[NetworkResult, ...]
    arena: Arena
    weight_bytes: int
    codes: tuple[StepCode, ...]
    infos: tuple[StepInfo, ...]
    steps: tuple[int, ...]
    places: tuple[tuple[RootOffset, ...], ...]
    numbers: tuple[tuple[int, ...], ...]
    kept: tuple[KeptState, ...]
    moved: tuple[MovedPart, ...]
    moving: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """The name of each entry's node."""
        return tuple(info.node for info in self.infos)

    @property
    def kernels(self) -> tuple[int, ...]:
        """The numbers of the entries that run kernels."""
        return tuple(n for n, step in enumerate(self.steps) if step >= 0)

    @property
    def weight_places(self) -> tuple[RootOffset, ...]:
        """Everything that lies among the weights."""
        copied = [result.copied for result in self.results if result.copied is not None]
        found = [*(place for step in self.places for place in step), *copied, *(kept.found for kept in self.kept)]
        return tuple(place for place in found if place.root == WEIGHTS)

    def with_weights(self, moved: Callable[[int], int], weight_bytes: int) -> ExecutionPlan:
        """This plan with weights elsewhere: `moved` gives their new offsets, `weight_bytes` is how many they are."""

        def place(given: RootOffset) -> RootOffset:
            return RootOffset(WEIGHTS, moved(given.offset)) if given.root == WEIGHTS else given

        return replace(
            self,
            weight_bytes=weight_bytes,
            places=tuple(tuple(map(place, step)) for step in self.places),
            results=tuple(r if r.copied is None else replace(r, copied=place(r.copied)) for r in self.results),
            kept=tuple(replace(kept, found=place(kept.found)) for kept in self.kept),
        )
