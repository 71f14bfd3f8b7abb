"""From a graph and machine code of its kernels to what runs: where each value lies, packed weights, and the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.graph.executable import Executable
from metasched.graph.execution_plan import (
    ARENA,
    FIRST,
    WEIGHTS,
    ExecutionPlan,
    KeptState,
    MovedPart,
    NetworkResult,
    RootOffset,
    StepInfo,
)
from metasched.graph.ir import Compute, Graph
from metasched.graph.memory import require_memory
from metasched.graph.plan import Arena, ValuePlace, arena, lifetimes, places, workspace_name
from metasched.graph.step_code import StepArgumentKind, TaskCode
from metasched.graph.weights import Weights, WeightStore, packed_keys, packed_weights
from metasched.target import Target


def executable(
    graph: Graph, codes: Mapping[str, TaskCode], target: Target, shared: WeightStore | None = None
) -> Executable:
    """A graph compiled; `codes` are those of its kernels, by their keys. It keeps copies of constants, not the graph's.

    `shared` are weights of other networks, among which are those of this one afterwards. Raises NetworkError where the
    machine has not the memory.
    """
    kernels = _kernel_of(graph)
    place = places(graph)
    written = _written_outputs(graph, place)
    moved = tuple(name for name, part in graph.parts.items() if part.position is not None)
    workspaces = [codes[kernels[n]].main.workspace_bytes if n in kernels else 0 for n in range(len(graph.nodes))]
    memory = arena(lifetimes(graph, place, (*written, *moved), workspaces))
    given = sum(graph.types[name].nbytes for name in (*graph.inputs, *written))
    require_memory(memory.nbytes + given, "buffers")
    weights = packed_weights(graph, kernels, codes, place, target, shared)
    numbers = {name: number for number, name in enumerate((*graph.inputs, *written, *moved), FIRST)}
    planner = _Planner(graph, codes, kernels, place, memory, weights, numbers)
    return Executable(planner.plan(written, moved), weights, target)


class _Planner:
    """What is known of a graph's values while its plan is made."""

    def __init__(
        self,
        graph: Graph,
        codes: Mapping[str, TaskCode],
        kernels: Mapping[int, str],
        place: Mapping[str, ValuePlace],
        memory: Arena,
        weights: Weights,
        numbers: Mapping[str, int],
    ) -> None:
        self._graph = graph
        self._codes = codes
        self._kernels = kernels
        self._place = place
        self._arena = memory
        self._weights = weights
        self._numbers = numbers

    def plan(self, written: Mapping[str, int], moved: Sequence[str]) -> ExecutionPlan:
        """`written` are the outputs' numbers by their roots, `moved` the parts that begin at a position."""
        graph, place = self._graph, self._place
        held = frozenset(graph.states.values())
        made = dict(graph.outputs)
        nodes = [(n, node) for n, node in enumerate(graph.nodes) if isinstance(node, Compute)]
        code_numbers = {key: number for number, key in enumerate(self._codes)}
        return ExecutionPlan(
            tuple((name, graph.types[name]) for name in graph.inputs),
            tuple((label, graph.types[name]) for label, name in graph.outputs),
            tuple(self._result(n, written) for n, (label, _) in enumerate(graph.outputs) if label not in held),
            self._arena,
            self._weights.nbytes,
            tuple(code.main for code in self._codes.values()),
            tuple(self._info(n, node) for n, node in nodes),
            tuple(code_numbers[self._kernels[n]] for n, _ in nodes),
            tuple(tuple(self._step_places(n, node)) for n, node in nodes),
            tuple(
                KeptState(self._numbers[name], self._at(made[label]), graph.types[name].nbytes)
                for name, label in graph.states.items()
                if place[made[label]] != place[name]
            ),
            tuple(self._moved_part(name) for name in moved),
        )

    def _info(self, number: int, node: Compute) -> StepInfo:
        kernel = self._kernels[number]
        code = self._codes[kernel]
        return StepInfo(node.name, node.op, self._graph.kernels[kernel].task, code.trace, code.origin)

    def _moved_part(self, name: str) -> MovedPart:
        graph, part = self._graph, self._graph.parts[name]
        assert part.position is not None
        size = graph.types[name].dtype.bytes
        numbers = graph.inputs.index(part.of), graph.inputs.index(part.position.input)
        return MovedPart(numbers[0], part.of, part.offset * size, numbers[1], part.position, part.position.step * size)

    def _result(self, number: int, written: Mapping[str, int]) -> NetworkResult:
        name = self._graph.outputs[number][1]
        root = self._place[name].root
        if written.get(root) == number:
            return NetworkResult(self._graph.types[name], self._numbers[root], None)
        return NetworkResult(self._graph.types[name], None, self._at(name))

    def _at(self, name: str) -> RootOffset:
        """Where a value is."""
        root, offset = self._place[name].root, self._place[name].offset
        if root in self._numbers:
            return RootOffset(self._numbers[root], offset)
        if root in self._weights.offsets:
            return RootOffset(WEIGHTS, self._weights.offsets[root] + offset)
        return RootOffset(ARENA, self._arena.offsets[root] + offset)

    def _step_places(self, number: int, node: Compute) -> list[RootOffset]:
        kernel = self._kernels[number]
        code = self._codes[kernel]
        packed = packed_keys(node, kernel, code, self._place)
        found = []
        for argument in code.main.arguments:
            if argument.kind is StepArgumentKind.PACKED:
                found.append(RootOffset(WEIGHTS, self._weights.offsets[packed[argument.number]]))
            else:
                names = node.inputs if argument.kind is StepArgumentKind.INPUT else node.outputs
                found.append(self._at(names[argument.number]))
        if code.main.workspace_bytes:
            found.append(RootOffset(ARENA, self._arena.offsets[workspace_name(number)]))
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
