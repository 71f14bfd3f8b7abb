"""Where a network's time goes: each kernel's in place, its share of the machine's limit, where its schedule is from.

Kernels are timed where they run, one after another in the network's own call, with the clock read between them in
compiled code. So weights come from where they lie, and activations are where the kernel before has left them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from metasched.calibration.store import core_of
from metasched.cost.core import Core
from metasched.cost.expectation import least_cycles
from metasched.graph.ir import Array, Compute, Graph
from metasched.graph.loops.flat_graph import flat
from metasched.graph.running.executable import Executable
from metasched.graph.running.execution_plan import StepInfo
from metasched.ir.notebook import TextReport
from metasched.report.limits import Bound, Ceilings, ceilings_of
from metasched.support.data_classes import dataclass
from metasched.target import Target

_RUNS = 30
_WARM_UP = 3
# What of a network's time is shown in full; the kernels of the rest are in the data.
_SHOWN_SHARE = 0.97
_WIDTH = 40


@dataclass(frozen=True)
class KernelProfile:
    """A kernel in its place.

    Attributes:
        node: the node of the model that it comes from, `op` that node's type.
        program: the program that it runs, with its parameters.
        task: the key of its task; kernels of one task run the same code.
        seconds: the median over the runs, of all its calls in one.
        share: of the sum over all kernels.
        flops: floating-point operations, `operations` those on integers that are data too.
        nbytes: of its inputs and outputs, each counted once; `weight_bytes` are those of constants.
        limit: of the least time that the machine could take, what share the kernel reaches: the longer of its
            arithmetic at the peak, and its bytes at the speed of the last cache (for weights that are
            larger than it together, of memory).
        origin: where its schedule comes from.
        calls: how often a run of the network calls it: more than once in a loop.

    """

    node: str
    op: str
    program: str
    task: str
    seconds: float
    share: float
    flops: int
    operations: int
    nbytes: int
    weight_bytes: int
    limit: float
    origin: str
    calls: int = 1

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations a second."""
        return self.flops * self.calls / self.seconds / 1e9

    @property
    def gigabytes(self) -> float:
        """Billions of bytes a second."""
        return self.nbytes * self.calls / self.seconds / 1e9

    @property
    def speed(self) -> str:
        """For a person: of what limits it, arithmetic or memory."""
        # An operation for each four bytes that are touched: fewer, and memory sets the pace.
        if self.operations * 4 > self.nbytes:
            return f"{self.operations * self.calls / self.seconds / 1e9:.1f} G{'FL' if self.flops else ''}OP/s"
        return f"{self.gigabytes:.1f} GB/s"


@dataclass(frozen=True, repr=False)
class NetworkProfile(TextReport):
    """Kernels in the order in which they run, and calls as a whole.

    `seconds` is the median of calls that were not looked into, `kernel_seconds` that of all kernels' sum in one call,
    `runs` how many there were of each, `ceilings` what the machine can do.
    """

    network: str
    kernels: tuple[KernelProfile, ...]
    seconds: float
    kernel_seconds: float
    runs: int
    ceilings: Ceilings

    @property
    def overhead(self) -> float:
        """The share of a call that is not spent in kernels; noise may make it negative."""
        return 1 - self.kernel_seconds / self.seconds

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, in seconds and bytes."""
        return asdict(self) | {"overhead": self.overhead, "ceilings": self.ceilings.to_json()}

    def __str__(self) -> str:
        spent, counted = self.kernel_seconds * 1e3, f"{len(self.kernels)} kernels (medians of {self.runs} runs)"
        lines = [
            f"{self.network}: {self.seconds * 1e3:.3f} ms a call, {spent:.3f} ms of it in {counted}",
            f"{'ms':>9} {'share':>6} {'speed':>16} {'of limit':>8}  kernel, and where its schedule comes from",
        ]
        shown = 0.0
        ranked = sorted(self.kernels, key=lambda kernel: -kernel.seconds)
        for n, kernel in enumerate(ranked):
            if shown > _SHOWN_SHARE:
                rest = ranked[n:]
                lines.append(f"{sum(k.seconds for k in rest) * 1e3:9.3f} {1 - shown:6.1%} in {len(rest)} others")
                break
            shown += kernel.share
            times = f", {kernel.calls} times" if kernel.calls != 1 else ""
            name = kernel.node if len(kernel.node) <= _WIDTH else f"...{kernel.node[3 - _WIDTH :]}"
            lines.append(
                f"{kernel.seconds * 1e3:9.3f} {kernel.share:6.1%} {kernel.speed:>16} {kernel.limit:8.1%}  "
                f"{name} ({kernel.op}{times}): {kernel.origin}"
            )
        return "\n".join([*lines, f"limits: {self.ceilings.source}"])


def profile_network(
    executable: Executable, graph: Graph, inputs: Sequence[Array], target: Target, runs: int = _RUNS
) -> NetworkProfile:
    """Run a network on these inputs and say where its time goes. `graph` is what the executable runs."""
    wholes, parts, calls = [], [], []
    for run in range(_WARM_UP + runs):
        began = time.perf_counter()
        executable.run(inputs)
        whole = time.perf_counter() - began
        times = executable.run_timed(inputs)
        if run >= _WARM_UP:
            wholes.append(whole)
            parts.append(times.nanoseconds)
            calls.append(times.runs)
    measured = np.array(parts).reshape(runs, -1) * 1e-9
    seconds = np.maximum(np.median(measured, axis=0), 1e-9)
    graph = flat(graph).graph
    limits = _Limits(graph, target, executable.weights.nbytes)
    counts = np.median(np.array(calls).reshape(runs, -1), axis=0)
    kernels = [
        limits.kernel(step, node, float(spent), float(spent / seconds.sum()), int(count))
        for step, node, spent, count in zip(executable.steps, graph.computes, seconds, counts, strict=True)
    ]
    return NetworkProfile(
        graph.name,
        tuple(kernels),
        float(np.median(wholes)),
        float(np.median(measured.sum(axis=1))),
        runs,
        limits.ceilings,
    )


class _Limits:
    """What kernels could reach on a target, where the network's weights are so many bytes."""

    def __init__(self, graph: Graph, target: Target, weight_bytes: int) -> None:
        self._graph = graph
        self._target = target
        self._core: Core = core_of(target)
        self.ceilings = ceilings_of(target)
        rates = self.ceilings.bytes_per_s
        self._rate = rates[Bound.L3]
        self._weight_rate = rates[Bound.L3 if weight_bytes <= target.l3 else Bound.MEMORY]
        self._arithmetic: dict[str, float] = {}

    def kernel(self, step: StepInfo, node: Compute, seconds: float, share: float, calls: int) -> KernelProfile:
        sizes: Mapping[str, int] = {name: self._graph.types[name].nbytes for name in (*node.inputs, *node.outputs)}
        weights = sum(size for name, size in sizes.items() if name in self._graph.constants)
        total = sum(sizes.values())
        if step.task not in self._arithmetic:
            self._arithmetic[step.task] = least_cycles(node.program.func, self._target, self._core)
        moving = (total - weights) / self._rate + weights / self._weight_rate
        least = max(self._arithmetic[step.task] / self.ceilings.clock_hz, moving)
        work = node.program.work
        return KernelProfile(
            node=step.node,
            op=step.op,
            program=node.program.key,
            task=step.task,
            seconds=seconds,
            share=share,
            flops=work.floats,
            operations=work.operations,
            nbytes=total,
            weight_bytes=weights,
            limit=calls * least / seconds,
            origin=step.origin,
            calls=calls,
        )
