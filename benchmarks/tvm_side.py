"""TVM's side of `benchmarks.kernels`: the fastest record of a MetaSchedule database, compiled for this CPU.

Run by the Python of an environment that has the TVM that made the records, from a folder without one called `tvm`; it
needs TVM and NumPy and nothing of the project but `benchmarks.blocks`. It answers as `benchmarks.kernel_side` does.

A call of TVM from Python takes longer than the smallest of these kernels, so that times are those of TVM's own
evaluator: its loop of calls is in C++. They are to be compared with `measure alone` of our side.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tvm  # type: ignore[import-not-found]
from tvm.s_tir.meta_schedule.database import JSONDatabase  # type: ignore[import-not-found]

from benchmarks.blocks import block_of_runs

# Where TVM's workloads take their inputs in another order than our operators, the places of ours in theirs.
_ORDER: Mapping[str, tuple[int, ...]] = {"CBR": (0, 1, 2, 4, 3)}
_BIG_CORES = 1  # `config_threadpool`'s mode


def fastest_record(folder: str) -> Any:
    """The record with the least mean time of a database."""
    records = [record for record in JSONDatabase(work_dir=folder).get_all_tuning_records() if record.run_secs]
    if not records:
        raise ValueError(f"no record with a time in {folder}")
    return min(records, key=lambda record: statistics.mean(float(s) for s in record.run_secs))


def compile_record(record: Any, threads: int) -> Any:
    """The record's kernel, as scheduled there, for the CPU at hand."""
    schedule = tvm.s_tir.Schedule(record.workload.mod)
    record.trace.apply_to_schedule(schedule, remove_postproc=False)
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
    return tvm.compile(schedule.mod, target=target).jit()


def arguments(record: Any, spec: Mapping[str, Any]) -> list[Any]:
    """Our inputs as TVM's tensors, and a tensor for the result.

    All layouts are ours but for dimensions of one element, which reshaping adds.
    """
    *infos, result = record.as_measure_candidate().args_info
    arrays = [np.load(spec["inputs"][n]) for n in _ORDER.get(spec["suite"], range(len(infos)))]
    shapes = [tuple(map(int, info.shape)) for info in (*infos, result)]
    arrays.append(np.zeros(shapes[-1], str(result.dtype)))
    return [tvm.runtime.tensor(array.reshape(shape)) for array, shape in zip(arrays, shapes, strict=True)]


def prepare_timer(spec: Mapping[str, Any]) -> Callable[[int], float]:
    """A function of a number of calls that makes them and returns the seconds that all took."""
    tvm.get_global_func("runtime.config_threadpool")(_BIG_CORES, spec["threads"])
    record = fastest_record(spec["records"])
    module, tensors = compile_record(record, spec["threads"]), arguments(record, spec)
    module["main"](*tensors)
    np.save(spec["result"], tensors[-1].numpy())

    def run(calls: int) -> float:
        evaluator = module.time_evaluator("main", tvm.cpu(), number=calls, repeat=1)
        return float(evaluator(*tensors).results[0]) * calls

    return run


def main() -> None:
    run: Callable[[int], float] = float
    for line in sys.stdin:
        if line == "measure\n":
            print(json.dumps(block_of_runs(run)), flush=True)
            continue
        run = prepare_timer(json.loads(line))
        print(json.dumps({"version": tvm.__version__}), flush=True)


if __name__ == "__main__":
    main()
