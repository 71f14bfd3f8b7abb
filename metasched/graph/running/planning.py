"""From a graph and machine code of its kernels to what runs: where each value lies, packed weights, and the steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from metasched.graph.code.step_code import StepArgumentKind, TaskCode
from metasched.graph.ir import Compute, Graph
from metasched.graph.loops.flat_graph import FlatGraph, flat, merge_same_arrays
from metasched.graph.running.executable import Executable
from metasched.graph.running.execution_plan import (
    ARENA,
    FIRST,
    WEIGHTS,
    ExecutionPlan,
    KeptState,
    MovedPart,
    NetworkResult,
    ResultCount,
    RootOffset,
    StepInfo,
)
from metasched.graph.running.loop_planning import Action, Locations, LoopActions, LoopMemory, loop_memory, moved_parts
from metasched.graph.running.memory import require_memory
from metasched.graph.running.plan import Arena, ValuePlace, arena, lifetimes, places, workspace_name
from metasched.graph.running.weights import Weights, WeightStore, pack_weights, packed_keys
from metasched.support.collection import pause_gc
from metasched.support.data_classes import dataclass
from metasched.target import Target


@pause_gc()
def executable(
    graph: Graph, codes: Mapping[str, TaskCode], target: Target, shared: WeightStore | None = None
) -> Executable:
    """A graph compiled; `codes` are those of its kernels, by their keys. It keeps copies of constants, not the graph's.

    `shared` are weights of other networks, among which are those of this one afterwards. Raises NetworkError where the
    machine has not the memory.
    """
    found = merge_same_arrays(flat(graph))
    graph = found.graph
    kernels = _kernel_of(graph)
    place = places(graph)
    loops = loop_memory(found, place)
    written = _written_outputs(graph, place, loops)
    in_loops = frozenset(moved_parts(found))
    moved = tuple(name for name, part in graph.parts.items() if part.position is not None and name not in in_loops)
    workspaces = [codes[kernels[n]].main.workspace_bytes if n in kernels else 0 for n in range(len(graph.nodes))]
    outside = (*written, *moved, *loops.moving)
    memory = arena(lifetimes(graph, place, outside, workspaces, loops.uses))
    given = sum(graph.types[name].nbytes for name in (*graph.inputs, *written))
    require_memory(memory.nbytes + given, "buffers")
    weights = pack_weights(graph, kernels, codes, place, target, shared, loops.reads)
    numbers = {name: number for number, name in enumerate((*graph.inputs, *written, *moved, *loops.moving), FIRST)}
    planner = _Planner(found, codes, kernels, place, memory, weights, numbers, loops)
    return Executable(planner.plan(written, moved), weights, target)


@dataclass(frozen=True)
class _Entry:
    """An entry of the table: what it is, the number of its kernel or what else it does, and its arguments."""

    info: StepInfo
    step: int
    places: tuple[RootOffset, ...]
    numbers: tuple[int, ...] = ()


class _Planner:
    """What is known of a graph's values while its plan is made."""

    def __init__(
        self,
        found: FlatGraph,
        codes: Mapping[str, TaskCode],
        kernels: Mapping[int, str],
        place: Mapping[str, ValuePlace],
        memory: Arena,
        weights: Weights,
        numbers: Mapping[str, int],
        loops: LoopMemory,
    ) -> None:
        self._flat = found
        self._graph = found.graph
        self._codes = codes
        self._code_numbers = {key: number for number, key in enumerate(codes)}
        self._kernels = kernels
        self._place = place
        self._arena = memory
        self._weights = weights
        self._numbers = numbers
        own = {key: RootOffset(WEIGHTS, offset) for key, offset in weights.offsets.items() if isinstance(key, str)}
        self._where = Locations(place, numbers, own, memory.offsets)
        self._at = self._where.locate
        self._loops = LoopActions(found, loops, self._where)
        self._moved_in_loops = frozenset(moved_parts(found))

    def plan(self, written: Mapping[str, int], moved: Sequence[str]) -> ExecutionPlan:
        """`written` are the outputs' numbers by their roots, `moved` the parts that begin at a position."""
        graph, place = self._graph, self._place
        hidden = graph.hidden
        made = dict(graph.outputs)
        entries = list(self._entries(0, len(graph.nodes), self._flat.outermost))
        given = FIRST + len(graph.inputs) + len(written) + len(moved)
        return ExecutionPlan(
            inputs=tuple((name, graph.types[name]) for name in graph.inputs),
            outputs=tuple((label, graph.types[name]) for label, name in graph.outputs),
            results=tuple(
                self._result(n, written) for n, (label, _) in enumerate(graph.outputs) if label not in hidden
            ),
            arena=self._arena,
            weight_bytes=self._weights.nbytes,
            codes=tuple(code.main for code in self._codes.values()),
            infos=tuple(entry.info for entry in entries),
            steps=tuple(entry.step for entry in entries),
            places=tuple(entry.places for entry in entries),
            numbers=tuple(entry.numbers for entry in entries),
            kept=tuple(
                KeptState(self._numbers[name], self._at(made[label]), graph.types[name].nbytes)
                for name, label in graph.states.items()
                if place[made[label]] != place[name]
            ),
            moved=tuple(self._moved_part(name) for name in moved),
            moving=FIRST + len(self._numbers) - given,
        )

    # --- the table

    def _entries(self, number: int, end: int, loops: Sequence[int]) -> Iterator[_Entry]:
        """Entries of nodes from one number to another, among which are these loops, and those in them."""
        for loop in loops:
            yield from self._node_entries(number, self._flat.loops[loop].first)
            yield from self._loop_entries(loop)
            number = self._flat.loops[loop].end
        yield from self._node_entries(number, end)

    def _node_entries(self, number: int, end: int) -> Iterator[_Entry]:
        for n in range(number, end):
            node = self._graph.nodes[n]
            if isinstance(node, Compute):
                for name in self._moved_in_loops.intersection(node.outputs):
                    yield self._action(node.name, node.op, self._loops.place_part(name))
                yield _Entry(
                    self._info(n, node), self._code_numbers[self._kernels[n]], tuple(self._step_places(n, node))
                )

    def _loop_entries(self, number: int) -> Iterator[_Entry]:
        loop, actions = self._flat.loops[number], self._loops
        inside = list(self._entries(loop.first, loop.end, self._flat.inner_loops(number)))
        inside += [self._action(loop.name, loop.op, action) for action in actions.actions_after_step(number)]
        for action in (*actions.actions_before(number), actions.loop(number, len(inside))):
            yield self._action(loop.name, loop.op, action)
        yield from inside

    def _action(self, node: str, op: str, action: Action) -> _Entry:
        return _Entry(StepInfo(node, op, "", None, ""), int(action.action), action.places, action.numbers)

    def _info(self, number: int, node: Compute) -> StepInfo:
        kernel = self._kernels[number]
        code = self._codes[kernel]
        return StepInfo(node.name, node.op, self._graph.kernels[kernel].task, code.trace, code.origin)

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

    # --- what goes in and out

    def _moved_part(self, name: str) -> MovedPart:
        graph, part = self._graph, self._graph.parts[name]
        assert part.position is not None
        size = graph.types[name].dtype.bytes
        numbers = graph.inputs.index(part.of), graph.inputs.index(part.position.input)
        return MovedPart(numbers[0], part.of, part.offset * size, numbers[1], part.position, part.position.step * size)

    def _result(self, number: int, written: Mapping[str, int]) -> NetworkResult:
        graph = self._graph
        label, name = graph.outputs[number]
        root = self._place[name].root
        counted = graph.counts.get(label)
        count = None if counted is None else ResultCount(self._at(dict(graph.outputs)[counted.label]), counted.axis)
        if written.get(root) == number:
            return NetworkResult(graph.types[name], self._numbers[root], None, count)
        return NetworkResult(graph.types[name], None, self._at(name), count)


def _kernel_of(graph: Graph) -> dict[int, str]:
    """The keys of the kernels of a graph's nodes, by the nodes' numbers."""
    keys = {id(node): key for key, kernel in graph.kernels.items() for node in kernel.nodes}
    return {n: keys[id(node)] for n, node in enumerate(graph.nodes) if isinstance(node, Compute)}


def _written_outputs(graph: Graph, place: Mapping[str, ValuePlace], loops: LoopMemory) -> dict[str, int]:
    """The roots that are written as outputs of the network, and the numbers of these: a root is the first's of it."""
    apart = {*graph.inputs, *graph.constants, *loops.moving}
    hidden = graph.hidden
    found: dict[str, int] = {}
    for number, (label, name) in enumerate(graph.outputs):
        root = place[name].root
        if label in hidden:
            continue
        if root not in apart and graph.types[root].nbytes == graph.types[name].nbytes:
            found.setdefault(root, number)
    return found
