"""Our side of `benchmarks.networks`, in a process of its own: loads a model, times its start, and then its calls.

The spec says, as JSON, what is run: the model, its inputs, the precision, the database of what was tuned (None for
nothing), and the folder for caches, which is empty where a cold start is wanted. The answer has the seconds and bytes
of the start. A line `measure` is answered with a block's samples, `profile` with the kernels' times in place.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.blocks import block
from benchmarks.network_spec import resident_bytes

PROFILE = "profile"


def main() -> None:
    spec = json.loads(sys.argv[1])
    if spec["cache"] is not None:
        os.environ["METASCHED_CACHE"] = spec["cache"]
    began = time.perf_counter()
    import metasched as ms

    network, facts = _load_network(ms, spec)
    with np.load(spec["inputs"]) as stored:
        inputs = {name: stored[name] for name in stored.files}
    start = time.perf_counter()
    results = network(**inputs)
    facts["first_call_s"] = time.perf_counter() - start
    facts["start_s"] = time.perf_counter() - began
    np.savez(spec["result"], *(results if isinstance(results, tuple) else (results,)))
    facts |= {"resident_bytes": resident_bytes()} | _file(Path(spec["model"]))
    # Last: a network from the cache reads its model for that.
    facts["tasks"] = len(network.optimised.tasks)
    facts["kernels"] = sum(1 for _ in network.optimised.computes)
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        answer = _profile(network, inputs) if line == f"{PROFILE}\n" else block(lambda: network(**inputs))
        print(json.dumps(answer), flush=True)


def _load_network(ms: Any, spec: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The network, compiled, and what that took."""
    facts: dict[str, Any] = {}
    start = time.perf_counter()
    ms.Target.detect()
    _ = ms.load_onnx
    facts["import_s"] = time.perf_counter() - start
    start = time.perf_counter()
    target = ms.Target.detect(threads=spec["threads"])
    network = ms.load_onnx(spec["model"], target=target, precision=spec["precision"], db=spec["db"], **spec["sizes"])
    facts["load_s"] = time.perf_counter() - start
    start, spent = time.perf_counter(), _core_seconds()
    network.compile()
    facts["compile_s"] = time.perf_counter() - start
    facts["compile_core_s"] = _core_seconds() - spent
    executable = network.compiled()
    facts |= {"arena_bytes": executable.arena.nbytes, "bound_bytes": executable.arena.bound}
    facts["packed_bytes"] = executable.weights.nbytes
    return network, facts


def _core_seconds() -> float:
    """CPU seconds of this process and of those that it has started and waited for: builders end with what they did."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _file(model: Path) -> dict[str, Any]:
    """The size of a model with its external data, and the seconds that reading it takes now."""
    start = time.perf_counter()
    size = sum(len(file.read_bytes()) for file in (model, model.with_name(f"{model.name}.data")) if file.is_file())
    return {"file_bytes": size, "read_weights_s": time.perf_counter() - start}


def _profile(network: Any, inputs: Mapping[str, Any]) -> Any:
    found = network.profile(**inputs)
    rows = [
        {"kernel": f"{k.node} ({k.op})", "ms": k.seconds * 1e3, "share": k.share, "limit": k.limit, "origin": k.origin}
        for k in sorted(found.kernels, key=lambda kernel: -kernel.seconds)
    ]
    return {"total_ms": found.seconds * 1e3, "kernels_ms": found.kernel_seconds * 1e3, "kernels": rows}


if __name__ == "__main__":
    main()
