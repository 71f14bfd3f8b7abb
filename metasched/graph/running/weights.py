"""Weights of a network as its kernels read them, held once in one piece of memory.

What a kernel computes of constants alone, such as a copy in a packed layout, is computed once for each set of
constants; those that are read as they are lie beside it. The graph's own arrays are not needed afterwards. Networks of
one model at several sizes share what is the same: equal constants, and what equal code computes of them.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from metasched.graph.code.step_code import StepArgumentKind, StepCode, TaskCode
from metasched.graph.ir import Array, Compute, Graph, GraphError, Node
from metasched.graph.running.execution_plan import RootOffset
from metasched.graph.running.memory import MappedMemory
from metasched.graph.running.plain_constants import CopyMemory
from metasched.graph.running.plan import ValuePlace, align_bytes
from metasched.graph.running.steps import LoadedStep, StepTable, TableEntry, require_success
from metasched.runtime.addresses import aligned_empty, data_pointer
from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass(frozen=True)
class Packed:
    """A result of the prologue of a kernel for some constants, by its number."""

    kernel: str
    constants: tuple[str, ...]
    number: int


_DIGEST = 16  # bytes of what tells weights apart

# A constant of the graph by its name, or what is computed of some.
WeightKey: TypeAlias = str | Packed


@dataclass(frozen=True)
class Weights:
    """Where each weight lies: `memory` holds them all but those that another network had before.

    Offsets are from where that memory begins; those of what is in another's, `borrowed`, may be negative.
    """

    memory: MappedMemory
    offsets: Mapping[WeightKey, int]
    borrowed: tuple[MappedMemory, ...] = ()

    @property
    def nbytes(self) -> int:
        return len(self.memory.bytes)


@dataclass(frozen=True)
class _Packing:
    """A run of a prologue: its code, and the constants that it takes, in the order of its inputs."""

    kernel: str
    code: StepCode
    constants: tuple[str, ...]

    def results(self) -> Mapping[WeightKey, int]:
        """What it computes, and the bytes of each."""
        return {
            Packed(self.kernel, self.constants, a.number): a.nbytes
            for a in self.code.arguments
            if a.kind is StepArgumentKind.PACKED
        }


class WeightStore:
    """Weights of several networks by what they are: code that computes them, and the contents of constants.

    Networks are compiled while another is written to disk, so each method holds the lock. Who holds it longer, `lock`,
    finds things as they were.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._known: dict[str, tuple[MappedMemory, int]] = {}
        self._files: dict[int, tuple[str, str, MappedMemory]] = {}

    @property
    def nbytes(self) -> int:
        """Memory of all of them."""
        with self.lock:
            memories = {id(memory): memory for memory, _ in self._known.values()}
        return sum(len(memory.bytes) for memory in memories.values())

    def get(self, key: str) -> tuple[MappedMemory, int] | None:
        """The memory that holds a weight, and its offset there."""
        with self.lock:
            return self._known.get(key)

    def put(self, key: str, memory: MappedMemory, offset: int) -> None:
        with self.lock:
            self._known[key] = memory, offset

    def offsets_in_memory(self, memory: MappedMemory) -> dict[str, int]:
        """The weights in a piece of memory, with their offsets there."""
        with self.lock:
            return {key: offset for key, (other, offset) in self._known.items() if other is memory}

    def is_in_file(self, memory: MappedMemory, key: str, weights_hash: str) -> None:
        """Remember that a piece of memory is what a network's file on disk has, by its key there and its SHA-256."""
        with self.lock:
            self._files[memory.address] = key, weights_hash, memory

    def file_of(self, memory: MappedMemory) -> tuple[str, str] | None:
        """The key and the SHA-256 of what is on disk of a piece of memory."""
        with self.lock:
            found = self._files.get(memory.address)
        return None if found is None else found[:2]

    def memory_of_file(self, weights_hash: str) -> MappedMemory | None:
        """The piece of memory that is what a file has, if there is one."""
        with self.lock:
            return next((memory for _, digest, memory in self._files.values() if digest == weights_hash), None)

    def key(self, packing: _Packing | None, arrays: Sequence[Array]) -> str:
        """What tells a weight from all others: the code that computes it, and the contents of constants."""
        said = list(map(_content, arrays))
        if packing is not None:
            said.append(hashlib.blake2b(packing.code.data, digest_size=_DIGEST).hexdigest())
        return " ".join(said)


def _content(array: Array) -> str:
    """A digest of type, shape and elements."""
    made = hashlib.blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=_DIGEST)
    return f"{array.dtype}{array.shape}{made.hexdigest()}"


def packed_keys(node: Compute, kernel: str, code: TaskCode, place: Mapping[str, ValuePlace]) -> dict[int, Packed]:
    """What a node's step takes of its prologue, by the numbers of the results."""
    if code.prologue is None:
        return {}
    constants = _constants(node, code.prologue, place)
    return {n: Packed(kernel, constants, n) for n in code.main.numbers(StepArgumentKind.PACKED)}


def pack_weights(
    graph: Graph,
    kernels: Mapping[int, str],
    codes: Mapping[str, TaskCode],
    place: Mapping[str, ValuePlace],
    target: Target,
    shared: WeightStore | None = None,
    more: Collection[str] = (),
) -> Weights:
    """Pack the constants of a graph. `kernels` are the keys of its nodes' kernels, by the nodes' numbers; `more` is
    what is read by no node.

    What is in `shared` already is taken from there, and the rest is there afterwards.

    Raises GraphError where a program's constant is not one of the graph.
    """
    packings: dict[tuple[str, tuple[str, ...]], _Packing] = {}
    copied: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        for name in _constants_of_step(node, codes.get(kernels.get(number, "")), place, graph):
            copied[name] = graph.constants[name].nbytes
        if number in kernels and (prologue := codes[kernels[number]].prologue) is not None:
            assert isinstance(node, Compute)
            constants = _constants(node, prologue, place)
            packings[kernels[number], constants] = _Packing(kernels[number], prologue, constants)
    for root in (*(place[name].root for _, name in graph.outputs), *more):
        if root in graph.constants:
            copied[root] = graph.constants[root].nbytes
    if shared is None:
        return _place_weights(graph, copied, packings.values(), target)
    with shared.lock:
        keys = _content_keys(shared, graph, copied, packings.values())
        have = {weight: found for weight, key in keys.items() if (found := shared.get(key)) is not None}
        missing = [p for p in packings.values() if not p.results().keys() <= have.keys()]
        own = _place_weights(graph, {name: size for name, size in copied.items() if name not in have}, missing, target)
        for weight, offset in own.offsets.items():
            shared.put(keys[weight], own.memory, offset)
        base = own.memory.address
        there = {weight: memory.address + offset - base for weight, (memory, offset) in have.items()}
        return Weights(own.memory, there | dict(own.offsets), tuple(memory for memory, _ in have.values()))


def _content_keys(
    shared: WeightStore, graph: Graph, copied: Iterable[str], packings: Iterable[_Packing]
) -> dict[WeightKey, str]:
    """What each weight of a graph is in a store."""
    keys: dict[WeightKey, str] = {name: shared.key(None, [graph.constants[name]]) for name in copied}
    for packing in packings:
        arrays = [_constant(graph, name) for name in packing.constants]
        digests = shared.key(packing, arrays)
        keys |= {weight: f"{digests} {weight.number}" for weight in packing.results() if isinstance(weight, Packed)}
    return keys


def _place_weights(graph: Graph, copied: Mapping[str, int], packings: Collection[_Packing], target: Target) -> Weights:
    """Weights in memory of their own."""
    sizes: dict[WeightKey, int] = {}
    sizes.update(copied.items())
    for packing in packings:
        sizes.update(packing.results())
    offsets: dict[WeightKey, int] = {}
    total = 0
    for key, size in sizes.items():
        offsets[key] = total
        total += align_bytes(size)
    weights = Weights(MappedMemory(total, "weights"), offsets)
    for name in copied:
        weights.memory.array(offsets[name], graph.types[name])[...] = graph.constants[name]
    _run_prologues(packings, weights, graph, target)
    return weights


def _constants_of_step(node: Node, code: TaskCode | None, place: Mapping[str, ValuePlace], graph: Graph) -> list[str]:
    """The constants that a node's step reads."""
    if code is None:
        return []
    roots = [place[node.inputs[n]].root for n in code.main.numbers(StepArgumentKind.INPUT)]
    return [root for root in roots if root in graph.constants]


def _constants(node: Compute, prologue: StepCode, place: Mapping[str, ValuePlace]) -> tuple[str, ...]:
    return tuple(place[node.inputs[n]].root for n in prologue.numbers(StepArgumentKind.INPUT))


def _run_prologues(packings: Iterable[_Packing], weights: Weights, graph: Graph, target: Target) -> None:
    """Run prologues, one after another: each on its constants, into its place among the weights."""
    target = target.runnable_here()
    loaded: dict[str, LoadedStep] = {}
    copies = CopyMemory()
    for packing in packings:
        if packing.kernel not in loaded:
            loaded = {packing.kernel: LoadedStep(packing.code, target)}
        arrays = [
            copies.plain_array(n, _constant(graph, name), graph.types[name]) for n, name in enumerate(packing.constants)
        ]
        _run_prologue(packing, loaded[packing.kernel], arrays, weights, target)


def _constant(graph: Graph, name: str) -> Array:
    """A constant. Raises GraphError for what is none."""
    if name not in graph.constants:
        raise GraphError(f"a program reads `{name}` as a constant, and it is computed")
    return graph.constants[name]


def _run_prologue(packing: _Packing, step: LoadedStep, arrays: list[Array], weights: Weights, target: Target) -> None:
    workspace = aligned_empty((packing.code.workspace_bytes,), np.dtype(np.uint8))
    workspace.fill(0)
    roots = (ctypes.c_int64 * (len(arrays) + 2))(
        weights.memory.address, data_pointer(workspace), *(data_pointer(array) for array in arrays)
    )
    places = []
    given = iter(range(2, len(arrays) + 2))
    for argument in packing.code.arguments:
        if argument.kind is StepArgumentKind.PACKED:
            key = Packed(packing.kernel, packing.constants, argument.number)
            places.append(RootOffset(0, weights.offsets[key]))
        else:
            places.append(RootOffset(next(given), 0))
    places.append(RootOffset(1, 0))
    require_success(StepTable([TableEntry(step, places)], target).run(roots), [packing.kernel])
