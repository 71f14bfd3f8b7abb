"""A network that runs: one call of compiled code for all kernels, over one arena.

Inputs are read where they are, outputs are written to new arrays, weights lie packed in memory of their own, and
everything between is in an arena by `plan`. A call takes an arena of its own, so that several threads may run one
network at once; the GIL is released.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from metasched.errors import KernelError
from metasched.graph.ir import Array, Compute, Graph, Position, ValueType
from metasched.graph.memory import MappedMemory, require_memory
from metasched.graph.plan import Arena, ValuePlace, arena, lifetimes, places, workspace_name
from metasched.graph.steps import LoadedStep, RootOffset, StepTable, require_success
from metasched.graph.task_code import StepArgumentKind, StepCode, TaskCode
from metasched.graph.weights import Weights, packed_keys, packed_weights
from metasched.runtime.compiled import aligned_empty, data_pointer
from metasched.target import Target

_ARENA, _WEIGHTS, _FIRST = range(3)

Roots = ctypes.Array[ctypes.c_int64]


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


@dataclass(frozen=True)
class NetworkResult:
    """An output: a new array that a step writes (its root's number), or a copy of a value."""

    type: ValueType
    written: int | None
    copied: RootOffset | None


@dataclass(frozen=True)
class NetworkLayout:
    """All that running the steps takes besides the weights: what an export writes.

    Attributes:
        inputs: names and types, in order; their roots follow those of the arena and of the weights.
        outputs: the same of outputs; the roots of those that steps write follow.
        results: how each output comes about.
        arena_bytes: of the arena, `weight_bytes` of the weights.
        codes: the machine code of the kernels.
        nodes: the name of each step's node.
        steps: the number of each step's kernel among `codes`.
        places: where each step's arguments are.

    """

    inputs: tuple[tuple[str, ValueType], ...]
    outputs: tuple[tuple[str, ValueType], ...]
    results: tuple[NetworkResult, ...]
    arena_bytes: int
    weight_bytes: int
    codes: tuple[StepCode, ...]
    nodes: tuple[str, ...]
    steps: tuple[int, ...]
    places: tuple[tuple[RootOffset, ...], ...]


@dataclass(frozen=True)
class _MovedPart:
    """A part of a state that begins at a position: inputs by their numbers, places in bytes."""

    state: int
    name: str
    offset: int
    input: int
    position: Position
    step: int

    @classmethod
    def of(cls, graph: Graph, name: str) -> _MovedPart:
        part = graph.parts[name]
        assert part.position is not None
        size = graph.types[name].dtype.bytes
        numbers = graph.inputs.index(part.of), graph.inputs.index(part.position.input)
        return cls(numbers[0], part.of, part.offset * size, numbers[1], part.position, part.position.step * size)

    def address(self, inputs: Sequence[Array]) -> int:
        """Raises KernelError for a position at which there is no room."""
        position = int(inputs[self.input].reshape(-1)[0])
        lowest, highest = self.position.lowest, self.position.highest
        if not lowest <= position <= highest:
            raise KernelError(
                f"`{self.position.input}` is {position}; the state `{self.name}` has room for {lowest} to {highest}"
            )
        return data_pointer(inputs[self.state]) + self.offset + position * self.step


class Executable:
    """A graph compiled: `run(inputs)` gives its outputs. It keeps nothing of the graph's constants but its own copies.

    States are inputs that a run changes to what they are next; outputs that they are next are not among the results.

    `arena` is the plan of its memory, `weights` what it holds between calls.
    """

    def __init__(self, graph: Graph, codes: Mapping[str, TaskCode], target: Target) -> None:
        """Raises NetworkError where the machine has not the memory."""
        kernels = _kernel_of(graph)
        place = places(graph)
        written = _written_outputs(graph, place)
        moved = tuple(name for name, part in graph.parts.items() if part.position is not None)
        workspaces = [codes[kernels[n]].main.workspace_bytes if n in kernels else 0 for n in range(len(graph.nodes))]
        self.arena: Arena = arena(lifetimes(graph, place, (*written, *moved), workspaces))
        given = sum(graph.types[name].nbytes for name in (*graph.inputs, *written))
        require_memory(self.arena.nbytes + given, "buffers")
        self.weights: Weights = packed_weights(graph, kernels, codes, place, target)
        self._numbers = {name: number for number, name in enumerate((*graph.inputs, *written, *moved), _FIRST)}
        self._inputs = len(graph.inputs)
        self._place = place
        held = frozenset(graph.states.values())
        self._results = tuple(
            self._result(n, graph, written) for n, (label, _) in enumerate(graph.outputs) if label not in held
        )
        self._kept = tuple(
            self._kept_state(graph, name, label)
            for name, label in graph.states.items()
            if place[dict(graph.outputs)[label]] != place[name]
        )
        self._moved = tuple(_MovedPart.of(graph, name) for name in moved)
        loaded = {key: LoadedStep(code.main, target) for key, code in codes.items()}
        nodes = [(n, node) for n, node in enumerate(graph.nodes) if isinstance(node, Compute)]
        self.steps = tuple(
            StepInfo(node.name, node.op, graph.kernels[kernels[n]].task, code.trace, code.origin)
            for n, node in nodes
            for code in [codes[kernels[n]]]
        )
        given_places = [tuple(self._step_places(n, node, kernels[n], codes[kernels[n]])) for n, node in nodes]
        self._table = StepTable([loaded[kernels[n]] for n, _ in nodes], given_places, target)
        numbers = {key: number for number, key in enumerate(codes)}
        self.layout = NetworkLayout(
            tuple((name, graph.types[name]) for name in graph.inputs),
            tuple((label, graph.types[name]) for label, name in graph.outputs),
            self._results,
            self.arena.nbytes,
            self.weights.nbytes,
            tuple(code.main for code in codes.values()),
            tuple(step.node for step in self.steps),
            tuple(numbers[kernels[n]] for n, _ in nodes),
            tuple(given_places),
        )
        self._arenas: list[MappedMemory] = []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for arrays of the inputs' types. Raises KernelError where a kernel fails."""
        with self._roots(inputs) as (roots, arrays):
            require_success(self._table.run(roots), self._names)
            self._keep(roots)
            return self._outputs(roots, arrays)

    def run_timed(self, inputs: Sequence[Array]) -> Array:
        """Nanoseconds of each step of one run, in order."""
        times = (ctypes.c_int64 * (len(self._table) + 1))()
        with self._roots(inputs) as (roots, _):
            require_success(self._table.run_timed(roots, times), self._names)
        return np.diff(np.array(times, np.int64))

    @property
    def _names(self) -> list[str]:
        return [step.node for step in self.steps]

    @contextmanager
    def _roots(self, inputs: Sequence[Array]) -> Iterator[tuple[Roots, list[Array]]]:
        """The addresses of every root for one call, and the new arrays among them. The arena is this call's."""
        # References kept until the end: kernels read these in place.
        taken = [np.require(array, requirements=("C", "A")) for array in inputs]
        new = [aligned_empty(r.type.shape, r.type.dtype.numpy) for r in self._results if r.written is not None]
        places = (*map(data_pointer, taken), *map(data_pointer, new), *(part.address(taken) for part in self._moved))
        memory = self._taken_arena()
        addresses = (memory.address, self.weights.memory.address, *places)
        try:
            yield (ctypes.c_int64 * len(addresses))(*addresses), new
        finally:
            self._arenas.append(memory)

    def _taken_arena(self) -> MappedMemory:
        try:
            return self._arenas.pop()
        except IndexError:
            return MappedMemory(self.arena.nbytes, "intermediates")

    def _keep(self, roots: Roots) -> None:
        """Copy what states are next to where they are, as far as it was not computed there."""
        for state, found, nbytes in self._kept:
            ctypes.memmove(roots[state], roots[found.root] + found.offset, nbytes)

    def _outputs(self, roots: Roots, new: list[Array]) -> list[Array]:
        found: list[Array] = []
        for result in self._results:
            if result.written is not None:
                found.append(new[result.written - _FIRST - self._inputs])
            else:
                assert result.copied is not None
                found.append(_copied(result.type, roots[result.copied.root] + result.copied.offset))
        return found

    # --- made once

    def _result(self, number: int, graph: Graph, written: Mapping[str, int]) -> NetworkResult:
        name = graph.outputs[number][1]
        root = self._place[name].root
        if written.get(root) == number:
            return NetworkResult(graph.types[name], self._numbers[root], None)
        return NetworkResult(graph.types[name], None, self._at(name))

    def _kept_state(self, graph: Graph, name: str, label: str) -> tuple[int, RootOffset, int]:
        return self._numbers[name], self._at(dict(graph.outputs)[label]), graph.types[name].nbytes

    def _at(self, name: str) -> RootOffset:
        """Where a value is."""
        root, offset = self._place[name].root, self._place[name].offset
        if root in self._numbers:
            return RootOffset(self._numbers[root], offset)
        if root in self.weights.offsets:
            return RootOffset(_WEIGHTS, self.weights.offsets[root] + offset)
        return RootOffset(_ARENA, self.arena.offsets[root] + offset)

    def _step_places(self, number: int, node: Compute, kernel: str, code: TaskCode) -> list[RootOffset]:
        packed = packed_keys(node, kernel, code, self._place)
        found = []
        for argument in code.main.arguments:
            if argument.kind is StepArgumentKind.PACKED:
                found.append(RootOffset(_WEIGHTS, self.weights.offsets[packed[argument.number]]))
            else:
                names = node.inputs if argument.kind is StepArgumentKind.INPUT else node.outputs
                found.append(self._at(names[argument.number]))
        if code.main.workspace_bytes:
            found.append(RootOffset(_ARENA, self.arena.offsets[workspace_name(number)]))
        return found


def _kernel_of(graph: Graph) -> dict[int, str]:
    """The keys of the kernels of a graph's nodes, by the nodes' numbers."""
    keys = {id(node): key for key, kernel in graph.kernels.items() for node in kernel.nodes}
    return {n: keys[id(node)] for n, node in enumerate(graph.nodes) if isinstance(node, Compute)}


def _written_outputs(graph: Graph, place: Mapping[str, ValuePlace]) -> dict[str, int]:
    """The roots that are written as outputs of the network, and the numbers of these: a root is the first's of it."""
    apart = {*graph.inputs, *graph.constants}
    found: dict[str, int] = {}
    for number, (label, name) in enumerate(graph.outputs):
        root = place[name].root
        if label in graph.states.values():
            continue
        if root not in apart and graph.types[root].nbytes == graph.types[name].nbytes:
            found.setdefault(root, number)
    return found


def _copied(type_: ValueType, address: int) -> Array:
    """A new array with what lies at an address."""
    array = aligned_empty(type_.shape, type_.dtype.numpy)
    ctypes.memmove(data_pointer(array), address, type_.nbytes)
    return array
