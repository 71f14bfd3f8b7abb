"""Kernels of a graph's programs, run one after another over buffers that are kept between calls.

Each distinct program is compiled once: by the guess, or as it is written where it is too small for its schedule to
matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from metasched.calibration.store import core_of
from metasched.graph.errors import NetworkError
from metasched.graph.ir import Array, Compute, Graph, ShapeView, ValueType, type_of
from metasched.ir.program import Program
from metasched.runtime.compiled import CompiledKernel, aligned_empty, build
from metasched.search.guess import guess
from metasched.target import Target

# A program of no more than so many elements and operations runs as it is written: a guess takes longer to find than
# a thousand of its calls.
_SMALL = 50_000
# The share of the machine's memory that buffers may take.
_SHARE = 0.9


def compiled(program: Program, target: Target) -> CompiledKernel:
    """The kernel of a program, without measuring."""
    work = sum(type_of(buffer).size for buffer in (*program.outputs, *program.func.temps))
    if work + program.work.operations <= _SMALL:
        return build(program.func, target)
    found = guess(program, target, core=core_of(target))
    return build(found.trace.apply_to(program).func, target)


@dataclass(frozen=True)
class _Buffers:
    """Memory for one call at a time, and the kernels bound to it, in order."""

    arrays: Mapping[str, Array]
    calls: Sequence[Callable[[], None]]


class GraphExecutor:
    """A graph that runs. Several threads may run it at once: each has buffers of its own."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self._kernels = {key: compiled(nodes[0].program, target) for key, nodes in graph.tasks.items()}
        self._of = {id(node): self._kernels[key] for key, nodes in graph.tasks.items() for node in nodes}
        self._parallel = next((k for k in self._kernels.values() if k.binary.parallel), None)
        self._free: list[_Buffers] = []

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for arrays of the inputs' types."""
        if self._parallel is not None:
            self._parallel.prepare()
        buffers = self._take()
        for name, array in zip(self.graph.inputs, inputs, strict=True):
            buffers.arrays[name][...] = array
        for call in buffers.calls:
            call()
        results = [np.array(buffers.arrays[name]) for _, name in self.graph.outputs]
        self._free.append(buffers)
        return results

    def _take(self) -> _Buffers:
        try:
            return self._free.pop()
        except IndexError:
            return self._allocated()

    def _allocated(self) -> _Buffers:
        graph = self.graph
        views = {node.output for node in graph.nodes if isinstance(node, ShapeView)}
        new = [name for name in graph.types if name not in views and name not in graph.constants]
        _require_memory(graph.types[name] for name in new)
        arrays: dict[str, Array] = {name: np.ascontiguousarray(array) for name, array in graph.constants.items()}
        arrays |= {name: array.reshape(graph.types[name].shape) for name, array in arrays.items()}
        arrays |= {name: aligned_empty(graph.types[name].shape, graph.types[name].dtype.numpy) for name in new}
        calls = []
        for node in graph.nodes:
            if isinstance(node, Compute):
                given = [arrays[name] for name in (*node.inputs, *node.outputs)]
                calls.append(self._of[id(node)].bind(*given))
            else:
                arrays[node.output] = arrays[node.input].reshape(graph.types[node.output].shape)
        return _Buffers(arrays, calls)


def _require_memory(types: Any) -> None:
    needed = sum(type_.nbytes for type_ in types if isinstance(type_, ValueType))
    have = int(psutil.virtual_memory().total * _SHARE)
    if needed > have:
        raise NetworkError(f"the network's buffers take {needed} bytes, and this machine has {have} for them")
