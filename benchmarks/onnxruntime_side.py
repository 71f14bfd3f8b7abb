"""ONNX Runtime on one thread, for `benchmarks.beside_onnxruntime`: it needs NumPy and onnxruntime alone.

`python onnxruntime_side.py MODEL.onnx ROWS.npy` prints the median of the CPU time of calls, in seconds: each has other
rows, ROWS is (calls, rows, columns).
"""

from __future__ import annotations

import sys
import time

import numpy as np
import onnxruntime  # type: ignore[import-not-found]


def main() -> None:
    """Time a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    times = []
    for rows in np.load(sys.argv[2]):
        start = time.thread_time()
        session.run(None, {"X": rows})
        times.append(time.thread_time() - start)
    sys.stdout.write(f"{np.median(times)}\n")


if __name__ == "__main__":
    main()
