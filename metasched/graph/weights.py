"""Weights of a network as its kernels read them, held once in one piece of memory.

What a kernel computes of constants alone, such as a copy in a packed layout, is computed once for each set of
constants; those that are read as they are lie beside it. The graph's own arrays are not needed afterwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from metasched.graph.ir import Array, Compute, Graph, GraphError, Node
from metasched.graph.memory import MappedMemory
from metasched.graph.plan import ValuePlace, aligned
from metasched.graph.steps import LoadedStep, RootOffset, StepTable, require_success
from metasched.graph.task_code import StepArgumentKind, StepCode, TaskCode
from metasched.runtime.compiled import aligned_empty, data_pointer
from metasched.target import Target


@dataclass(frozen=True)
class Packed:
    """A result of the prologue of a kernel for some constants, by its number."""

    kernel: str
    constants: tuple[str, ...]
    number: int


# A constant of the graph by its name, or what is computed of some.
WeightKey: TypeAlias = str | Packed


@dataclass(frozen=True)
class Weights:
    """Where each weight lies in the memory that holds them all."""

    memory: MappedMemory
    offsets: Mapping[WeightKey, int]

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


def packed_keys(node: Compute, kernel: str, code: TaskCode, place: Mapping[str, ValuePlace]) -> dict[int, Packed]:
    """What a node's step takes of its prologue, by the numbers of the results."""
    if code.prologue is None:
        return {}
    constants = _constants(node, code.prologue, place)
    return {n: Packed(kernel, constants, n) for n in code.main.numbers(StepArgumentKind.PACKED)}


def packed_weights(
    graph: Graph,
    kernels: Mapping[int, str],
    codes: Mapping[str, TaskCode],
    place: Mapping[str, ValuePlace],
    target: Target,
) -> Weights:
    """Pack the constants of a graph. `kernels` are the keys of its nodes' kernels, by the nodes' numbers.

    Raises GraphError where a program's constant is not one of the graph.
    """
    packings: dict[tuple[str, tuple[str, ...]], _Packing] = {}
    copied: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        for name in _read_as_they_are(node, codes.get(kernels.get(number, "")), place, graph):
            copied[name] = graph.constants[name].nbytes
        if number in kernels and (prologue := codes[kernels[number]].prologue) is not None:
            assert isinstance(node, Compute)
            constants = _constants(node, prologue, place)
            packings[kernels[number], constants] = _Packing(kernels[number], prologue, constants)
    for _, name in graph.outputs:
        if place[name].root in graph.constants:
            copied[place[name].root] = graph.constants[place[name].root].nbytes
    sizes: dict[WeightKey, int] = {}
    sizes.update(copied.items())
    for packing in packings.values():
        sizes.update(packing.results())
    offsets: dict[WeightKey, int] = {}
    total = 0
    for key, size in sizes.items():
        offsets[key] = total
        total += aligned(size)
    weights = Weights(MappedMemory(total, "weights"), offsets)
    for name in copied:
        weights.memory.array(offsets[name], graph.types[name])[...] = graph.constants[name]
    _run(packings.values(), weights, graph, target)
    return weights


def _read_as_they_are(node: Node, code: TaskCode | None, place: Mapping[str, ValuePlace], graph: Graph) -> list[str]:
    """The constants that a node's step reads."""
    if code is None:
        return []
    roots = [place[node.inputs[n]].root for n in code.main.numbers(StepArgumentKind.INPUT)]
    return [root for root in roots if root in graph.constants]


def _constants(node: Compute, prologue: StepCode, place: Mapping[str, ValuePlace]) -> tuple[str, ...]:
    return tuple(place[node.inputs[n]].root for n in prologue.numbers(StepArgumentKind.INPUT))


def _run(packings: Iterable[_Packing], weights: Weights, graph: Graph, target: Target) -> None:
    """Run prologues, one after another: each on its constants, into its place among the weights."""
    loaded: dict[str, LoadedStep] = {}
    for packing in packings:
        if packing.kernel not in loaded:
            loaded = {packing.kernel: LoadedStep(packing.code, target)}
        arrays = [_plain(graph, name) for name in packing.constants]
        _call(packing, loaded[packing.kernel], arrays, weights, target)


def _plain(graph: Graph, name: str) -> Array:
    """A constant as kernels take it. Raises GraphError for what is none."""
    if name not in graph.constants:
        raise GraphError(f"a program reads `{name}` as a constant, and it is computed")
    return np.require(graph.constants[name], requirements=("C", "A"))


def _call(packing: _Packing, step: LoadedStep, arrays: list[Array], weights: Weights, target: Target) -> None:
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
    require_success(StepTable([step], [places], target).run(roots), [packing.kernel])
