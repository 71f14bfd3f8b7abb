"""A small model beside ONNX Runtime, on one thread, untuned: CPU time of the thread, in turns.

ONNX Runtime has a process of its own, by the Python of `--torch-python PATH` (or METASCHED_TORCH_PYTHON).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.registry import Options, Result

PEER = "ONNX Runtime"
_SIDE = Path(__file__).with_name("onnxruntime_side.py")
_ROUNDS = 3


def compare(case: str, path: Path, load: Callable[[], ms.Network], given: Any, options: Options) -> Result:
    """The line of a model in a file: medians over calls, each of which has other rows of `given`, which is
    float32[calls, rows, columns]. `load` makes the network.
    """
    start = time.perf_counter()
    network = load()
    network(given[0])
    ready = time.perf_counter() - start
    rows = path.with_name("rows.npy")
    np.save(rows, given)
    ours, peer = list[float](), list[float]()
    for _ in range(1 if options.quick else _ROUNDS):
        ours.append(_time(network, given))
        if options.torch_python is not None:
            done = subprocess.run(
                [options.torch_python, str(_SIDE), str(path), str(rows)], capture_output=True, text=True, check=True
            )
            peer.append(float(done.stdout))
    own = 1e3 * float(np.median(ours))
    line: Result = {"case": case, "ours_ms": own, "ready_s": ready}
    if not peer:
        return {**line, "notes": ["no peer: no Python that has onnxruntime was named (--torch-python)"]}
    theirs = 1e3 * float(np.median(peer))
    return {**line, "peer": PEER, "peer_ms": theirs, "ratio": theirs / own}


def _time(network: Any, given: Any) -> float:
    times = []
    for rows in given:
        start = time.thread_time()
        network(rows)
        times.append(time.thread_time() - start)
    return float(np.median(times))
