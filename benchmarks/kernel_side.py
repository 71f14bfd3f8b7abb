"""Our side of a comparison of kernels, in a process of its own: compiles operators by given traces, and times them.

Where a schedule computes something of constant arguments alone, that is done once, when the kernel is prepared, and the
calls that are timed are those of the packed kernel.

A line `measure` is answered with the samples of a block of calls from Python, arguments checked; `measure alone` with
those of the kernel alone, called in a loop of compiled code as candidates of a search are. Any other is a kernel to
prepare: JSON with the operator, its parameters, the trace, the .npy files of its inputs, and where the result goes.
The answer has the seconds that compiling took, and those of packing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.arrays import load_aligned
from benchmarks.blocks import block, block_of_runs
from benchmarks.sides import ALONE
from metasched.ir.prologue import constants, main_part
from metasched.measure.records import Artefact
from metasched.measure.workers.load import BoundKernel, LoadedKernel
from metasched.operators import load
from metasched.runtime.addresses import aligned_empty, data_pointer
from metasched.runtime.compiled import CompiledKernel, raise_status

_PAGE = 4096  # bytes; smaller arrays do not start on a cache line


def compile_kernel(spec: Mapping[str, Any]) -> tuple[ms.Kernel, float]:
    """The kernel that is asked for, and the seconds that it took to compile."""
    program, trace = load(spec["operator"], **spec["params"]), ms.parse_trace(spec["trace"])
    target = ms.Target.detect(threads=spec["threads"])
    start = time.perf_counter()
    kernel = ms.compile(program, trace=trace, target=target)
    return kernel, time.perf_counter() - start


def declared_types(kernel: ms.Kernel) -> list[np.dtype[Any]]:
    """The element types of a kernel's arguments in order: files have no bf16."""
    func = kernel.program.func
    types = {b.name: b.dtype.numpy for b in func.inputs}
    return [types.get(name, np.dtype(np.float32)) for name in func.order]


@dataclass(frozen=True)
class Timed:
    """What is timed: `call` takes the arguments `given`, `alone`, its machine code, those that are `packed` as well.

    `prologue_s` are the seconds of what was run once for constant arguments, None where that is nothing.
    """

    call: Callable[..., Any]
    alone: CompiledKernel
    given: Sequence[np.ndarray | float]
    packed: Sequence[np.ndarray] = ()
    prologue_s: float | None = None


def main_part_of(kernel: ms.Kernel, inputs: Sequence[np.ndarray | float]) -> Timed:
    """A kernel on inputs in its order; packed where its schedule computes something of constant arguments alone."""
    func = kernel.trace.apply_to(kernel.program).func
    if main_part(func) is func:
        return Timed(kernel, kernel.compiled, inputs)
    named = dict(zip(func.order, inputs, strict=True))
    packed = kernel.pack(**{name: named.pop(name) for name in constants(func)})
    return Timed(packed, packed.kernel.compiled, tuple(named.values()), packed.arrays, packed.pack_seconds)


class Alone:
    """A kernel without Python, on arguments that it holds on to: `run(n)` calls it n times, and returns the seconds."""

    def __init__(self, kernel: CompiledKernel, arguments: Sequence[np.ndarray | float]) -> None:
        binary, parameters = kernel.binary, kernel.parameters
        scalars = tuple((n, p.dtype.value) for n, p in enumerate(parameters) if p.shape is None)
        artefact = Artefact(binary.entry, binary.workspace_bytes, binary.parallel, str(kernel.target), scalars)
        self._held = [np.asarray(argument, p.dtype.numpy) for argument, p in zip(arguments, parameters, strict=True)]
        self._workspace = aligned_empty((max(binary.workspace_bytes, _PAGE),), np.dtype(np.uint8))
        addresses = [data_pointer(array) for array in self._held]
        loaded = LoadedKernel(artefact, binary.code.data)
        self._bound: BoundKernel = loaded.bind(addresses, data_pointer(self._workspace))

    def run(self, calls: int) -> float:
        seconds = self._bound.run(calls)
        if self._bound.status:
            raise_status(self._bound.status, self._workspace.nbytes)
        return seconds


def main() -> None:
    ms.compile(load("matmul_nn", M=128, N=128, K=128))  # what is loaded once is loaded
    call: Callable[[], object] = time.perf_counter
    run: Callable[[int], float] = float
    for line in sys.stdin:
        if line == f"{ALONE}\n":
            print(json.dumps(block_of_runs(run)), flush=True)
            continue
        if line == "measure\n":
            print(json.dumps(block(call)), flush=True)
            continue
        spec = json.loads(line)
        kernel, seconds = compile_kernel(spec)
        inputs = [load_aligned(*file) for file in zip(spec["inputs"], declared_types(kernel), strict=True)]
        timed = main_part_of(kernel, inputs)
        out = timed.call(*timed.given)
        np.save(spec["result"], out)
        run = Alone(timed.alone, [*timed.given, *timed.packed, out]).run

        def call(timed: Timed = timed, out: object = out) -> object:
            return timed.call(*timed.given, out=out)

        print(json.dumps({"compile_s": seconds, "prologue_s": timed.prologue_s}), flush=True)


if __name__ == "__main__":
    main()
