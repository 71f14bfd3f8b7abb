"""Halide's side of `benchmarks.pipelines`: a pipeline by each autoscheduler and by hand, just-in-time compiled.

Run by the Python of an environment that has Halide 21; it needs Halide and NumPy and nothing of the project but
`benchmarks.blocks`, `benchmarks.arrays`, `benchmarks.halide_pipelines` and `benchmarks.halide_grids`. A line of JSON
says what to prepare: the pipeline, the schedule, the files of its inputs and of its result. `measure SCHEDULE` is
answered with the samples of a block.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import halide as hl  # type: ignore[import-not-found]
import numpy as np

from benchmarks.arrays import load_aligned
from benchmarks.blocks import block
from benchmarks.halide_grids import bilateral_grid, local_laplacian
from benchmarks.halide_pipelines import PIPELINES

BY_HAND = "by hand"
_MARGIN = 128  # Adams2019 rounds regions up, and reads inputs beyond what is used.
_PIPELINES = {**PIPELINES, "bilateral_grid": bilateral_grid, "local_laplacian": local_laplacian}
Array = np.ndarray[Any, Any]


def load_autoschedulers() -> None:
    for name in ("mullapudi2016", "adams2019", "li2018"):
        hl.load_plugin(str(Path(hl.__file__).parent / "lib64" / f"libautoschedule_{name}.so"))


def buffer_of(array: Array) -> Any:
    """An image inside a larger one, of which nothing beyond the image is used."""
    if array.ndim < 2:
        return hl.Buffer(array)
    *planes, h, w = array.shape
    around = np.zeros((*planes, h + 2 * _MARGIN, w + 2 * _MARGIN), array.dtype)
    around[..., _MARGIN : _MARGIN + h, _MARGIN : _MARGIN + w] = array
    buffer = hl.Buffer(around)
    buffer.set_min([-_MARGIN, -_MARGIN] + [0] * len(planes))
    return buffer


def prepare_pipeline(spec: dict[str, Any]) -> tuple[Callable[[], object], float]:
    """A function that runs the pipeline, and the seconds that scheduling and compiling took."""
    made = _PIPELINES[spec["case"]]()
    pipeline, target = hl.Pipeline(made.output), hl.get_jit_target_from_environment()
    arrays = [np.asarray(load_aligned(file)) for file in spec["inputs"]]
    start = time.perf_counter()
    if spec["schedule"] == BY_HAND:
        made.by_hand()
    else:
        for parameter, array in zip(made.inputs, arrays, strict=True):
            parameter.set_estimates([(0, n) for n in array.shape[::-1]])
        made.output.set_estimates([(0, n) for n in made.size])
        parameters = hl.AutoschedulerParams(spec["schedule"], {"parallelism": str(spec["threads"])})
        pipeline.apply_autoscheduler(target, parameters)
    held = [buffer_of(array) for array in arrays]
    for parameter, buffer in zip(made.inputs, held, strict=True):
        parameter.set(buffer)
    pipeline.compile_jit(target)
    seconds = time.perf_counter() - start
    out = np.zeros(made.size[::-1], spec["dtype"])
    result = hl.Buffer(out)
    pipeline.realize(result)
    np.save(spec["result"], out)

    def call(_held: object = (made, held, out)) -> None:  # Halide does not keep the memory of its parameters.
        pipeline.realize(result)

    return call, seconds


def limit_memory() -> None:
    """What asks for more memory than there is gets an error, and the machine stays usable."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = free if most == resource.RLIM_INFINITY else min(free, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def answers_only() -> TextIO:
    """Standard output, for answers alone: Halide's warnings, which it prints there, go to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def main() -> None:
    out = answers_only()
    limit_memory()
    load_autoschedulers()
    calls: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        if line.startswith("measure "):
            print(json.dumps(block(calls[line.removeprefix("measure ").strip()])), file=out, flush=True)
            continue
        spec = json.loads(line)
        try:
            calls[spec["schedule"]], seconds = prepare_pipeline(spec)
        except hl.HalideError as error:
            print(json.dumps({"refused": str(error).strip().splitlines()[0]}), file=out, flush=True)
        else:
            print(json.dumps({"compile_s": seconds}), file=out, flush=True)


if __name__ == "__main__":
    main()
