"""One side of a comparison, in a process of its own: `python -m benchmarks.side SPEC`, started by `benchmarks.sides`.

It reads a line for each thing to do and answers with a line of JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.blocks import block
from benchmarks.workloads import WORKLOADS, Workload

Array = NDArray[Any]


def our_kernel(workload: Workload, trace: str) -> Callable[..., Array]:
    import metasched as ms

    program = ms.load_program(workload.file, **workload.params)
    kernel: Callable[..., Array] = ms.compile(program, trace=ms.parse_trace(trace))
    return kernel


def main() -> None:
    spec = json.loads(sys.argv[1])
    workload = WORKLOADS[spec["workload"]]
    inputs = workload.inputs()
    function = our_kernel(workload, spec["trace"]) if spec["trace"] else workload.peers[spec["side"]]
    result = function(*inputs)
    np.save(spec["result"], result)
    print(json.dumps({"ready": True}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(block(lambda: function(*inputs))), flush=True)


if __name__ == "__main__":
    main()
