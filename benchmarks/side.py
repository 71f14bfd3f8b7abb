"""One side of a comparison, in a process of its own: `python -m benchmarks.side SPEC`, started by `benchmarks.sides`.

It reads a line for each thing to do and answers with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import WORKLOADS, Workload

Array = NDArray[Any]

DROPPED_S = 0.15  # at the start of a block: another process's idle threads may still spin
BLOCK_S = 0.30
SAMPLE_S = 1e-3


def ours(workload: Workload, trace: str) -> Callable[..., Array]:
    import metasched as ms

    program = ms.load_program(workload.file, **workload.params)
    kernel: Callable[..., Array] = ms.compile(program, trace=ms.parse_trace(trace))
    return kernel


def block(call: Callable[[], object]) -> list[float]:
    """Seconds per call: samples of about a millisecond or one call, over a block, the first part dropped."""
    start = time.perf_counter()
    calls = 0
    while time.perf_counter() - start < DROPPED_S:
        call()
        calls += 1
    each = max(1, round(SAMPLE_S / (DROPPED_S / calls)))
    samples: list[float] = []
    start = time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - start < BLOCK_S:
        begin = time.perf_counter()
        for _ in range(each):
            call()
        samples.append((time.perf_counter() - begin) / each)
    return samples


def main() -> None:
    spec = json.loads(sys.argv[1])
    workload = WORKLOADS[spec["workload"]]
    inputs = workload.inputs()
    function = ours(workload, spec["trace"]) if spec["trace"] else workload.peers[spec["side"]]
    result = function(*inputs)
    np.save(spec["result"], result)
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(block(lambda: function(*inputs))), flush=True)


if __name__ == "__main__":
    main()
