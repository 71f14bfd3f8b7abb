"""Our side of `benchmarks.kernels`, in a process of its own: compiles cases from their expert traces, and times them.

A line `measure` is answered with the samples of a block; any other is a case to prepare: JSON with its name, the .npy
files of its inputs, and where the result goes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

import metasched as ms
from benchmarks.arrays import load_aligned
from benchmarks.blocks import block
from benchmarks.kernel_cases import BY_NAME, KernelCase
from metasched.operators import expert
from metasched.schedule.handlers import Policy


def replayed(case: KernelCase) -> ms.Trace:
    """The case's expert trace at the case's shape."""
    return expert(case.expert).trace.apply_to(case.program(), Policy.REPAIR).trace


def compiled(case: KernelCase) -> tuple[ms.Kernel, float]:
    """The case's kernel, and the seconds that it took to compile."""
    program, trace, target = case.program(), replayed(case), ms.Target.detect(threads=case.threads)
    start = time.perf_counter()
    kernel = ms.compile(program, trace=trace, target=target)
    return kernel, time.perf_counter() - start


def main() -> None:
    ms.compile(BY_NAME["matmul 128^3"].program())  # what is loaded once is loaded
    call: Callable[[], object] = time.perf_counter
    for line in sys.stdin:
        if line == "measure\n":
            print(json.dumps(block(call)), flush=True)
            continue
        spec = json.loads(line)
        kernel, seconds = compiled(BY_NAME[spec["case"]])
        inputs = [load_aligned(file) for file in spec["inputs"]]
        out = kernel(*inputs)
        np.save(spec["result"], out)

        def call(kernel: ms.Kernel = kernel, inputs: list[np.ndarray | float] = inputs, out: object = out) -> object:
            return kernel(*inputs, out=out)

        print(json.dumps({"compile_s": seconds}), flush=True)


if __name__ == "__main__":
    main()
