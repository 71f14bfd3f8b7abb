"""Our side of `benchmarks.mobilenet_blocks`, in a process of its own: programs that feed one another, by given traces.

A line of JSON says what to prepare: the text and the trace of each program, where each takes the result of the one
before as its first argument; the files of all other inputs, in order; and where the last result goes. The answer has
the seconds of what is computed once of constant weights. `measure alone` is answered with the samples of a block: the
kernels are called one after another, and their seconds without Python are added.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.arrays import load_aligned
from benchmarks.blocks import block_of_runs
from benchmarks.kernel_side import Alone, main_part_of


def chain_calls(parts: Sequence[Alone]) -> Callable[[int], float]:
    """A function of a number of calls of all kernels in order, that makes them and returns their seconds."""
    return lambda calls: sum(part.run(1) for _ in range(calls) for part in parts)


def prepare_chain(spec: Mapping[str, Any]) -> tuple[Sequence[Alone], np.ndarray, float | None]:
    """The kernels, the last one's result, and the seconds of all prologues, if there are any."""
    target = ms.Target.detect(threads=spec["threads"])
    inputs: Iterator[np.ndarray | float] = map(load_aligned, spec["inputs"])
    parts, prologues = [], []
    value: np.ndarray | float = next(inputs)
    for text, trace in spec["programs"]:
        kernel = ms.compile(ms.parse_program(text), trace=ms.parse_trace(trace), target=target)
        order = kernel.program.func.order
        timed = main_part_of(kernel, [value, *(next(inputs) for _ in order[1:])])
        value = timed.call(*timed.given)
        parts.append(Alone(timed.alone, [*timed.given, *timed.packed, value]))
        prologues += [] if timed.prologue_s is None else [timed.prologue_s]
    return parts, np.asarray(value), sum(prologues) if prologues else None


def main() -> None:
    run: Callable[[int], float] = float
    for line in sys.stdin:
        if line == "measure alone\n":
            print(json.dumps(block_of_runs(run)), flush=True)
            continue
        spec = json.loads(line)
        parts, result, prologue_s = prepare_chain(spec)
        np.save(spec["result"], result)
        run = chain_calls(parts)
        print(json.dumps({"prologue_s": prologue_s}), flush=True)


if __name__ == "__main__":
    main()
