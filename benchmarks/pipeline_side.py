"""Our side of `benchmarks.pipelines`, in a process of its own: programs by given traces, called from Python.

A line of JSON says what to prepare: the program's text, the trace, the files of its inputs and of its result, and the
name of the schedule. `measure NAME` is answered with the samples of a block.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.arrays import load_aligned
from benchmarks.blocks import block


def prepare_call(spec: Mapping[str, Any]) -> Callable[[], object]:
    target = ms.Target.detect(threads=spec["threads"])
    kernel = ms.compile(ms.parse_program(spec["text"]), trace=ms.parse_trace(spec["trace"]), target=target)
    inputs = [load_aligned(file) for file in spec["inputs"]]
    out = kernel(*inputs)
    np.save(spec["result"], out)
    return lambda: kernel(*inputs, out=out)


def main() -> None:
    calls: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        if line.startswith("measure "):
            print(json.dumps(block(calls[line.removeprefix("measure ").strip()])), flush=True)
            continue
        spec = json.loads(line)
        calls[spec["schedule"]] = prepare_call(spec)
        print(json.dumps({"ready": True}), flush=True)


if __name__ == "__main__":
    main()
