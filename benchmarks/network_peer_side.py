"""A peer's side of `benchmarks.networks`: ONNX Runtime or PyTorch, in a virtual environment that has them.

Run by that environment's Python, with a spec as JSON; it needs nothing of the project but `benchmarks.blocks`,
`benchmarks.network_spec` and `benchmarks.network_models`. It answers as `benchmarks.network_side` does.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.blocks import block
from benchmarks.network_models import make_model
from benchmarks.network_spec import COMPILED, COMPILED_BF16, EAGER_BF16, ONNX_RUNTIME, resident_bytes

Call = Callable[[], Any]
Outputs = Sequence[np.ndarray]


def onnx_runtime(spec: Mapping[str, Any]) -> tuple[Call, Callable[[Any], Outputs], dict[str, Any]]:
    import onnxruntime as ort  # type: ignore[import-not-found]

    options = ort.SessionOptions()
    options.intra_op_num_threads = spec["threads"]
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    start = time.perf_counter()
    session = ort.InferenceSession(spec["model"], options, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    with np.load(spec["inputs"]) as stored:
        feed = {name: stored[name] for name in stored.files}
    facts = {"version": ort.__version__, "start_s": seconds}
    return lambda: session.run(None, feed), lambda results: results, facts


def torch_module(spec: Mapping[str, Any]) -> tuple[Call, Callable[[Any], Outputs], dict[str, Any]]:
    import torch  # type: ignore[import-not-found]

    torch.set_num_threads(spec["threads"])
    kind = spec["kind"]
    module, given = make_model(spec["network"])
    if kind in (EAGER_BF16, COMPILED_BF16):
        module = module.to(torch.bfloat16)
        given = given.to(torch.bfloat16) if given.is_floating_point() else given
    if given.dim() == 4:
        module, given = (x.to(memory_format=torch.channels_last) for x in (module, given))
    seconds = 0.0
    if kind in (COMPILED, COMPILED_BF16):
        import torch._inductor.config  # type: ignore[import-not-found]

        torch._inductor.config.freezing = True  # noqa: SLF001 -- where PyTorch's documentation has it
        module = torch.compile(module)
        start = time.perf_counter()
        with torch.no_grad():
            module(given)
        seconds = time.perf_counter() - start

    def call() -> Any:
        return module(given)

    facts = {"version": torch.__version__, "compile_s": seconds}
    return call, lambda y: [np.ascontiguousarray(y.float().numpy())], facts


def main() -> None:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    spec = json.loads(sys.argv[1])
    if spec["kind"] == ONNX_RUNTIME:
        answer(spec, *onnx_runtime(spec))
        return
    import torch

    with torch.no_grad() if spec["kind"] in (COMPILED, COMPILED_BF16) else torch.inference_mode():
        answer(spec, *torch_module(spec))


def answer(spec: Mapping[str, Any], call: Call, arrays: Callable[[Any], Outputs], facts: Mapping[str, Any]) -> None:
    """Run once, keep the results, and then answer each line with a block's samples."""
    start = time.perf_counter()
    results = arrays(call())
    first = time.perf_counter() - start
    np.savez(spec["result"], *results)
    print(json.dumps({**facts, "first_call_s": first, "resident_bytes": resident_bytes()}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(block(call)), flush=True)


if __name__ == "__main__":
    main()
