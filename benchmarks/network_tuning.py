"""Tuning of a network in a process of its own, and how long it took to reach ONNX Runtime's speed.

`python -m benchmarks.network_tuning SPEC` tunes in slices of the budget, which go on from one another through the
database, and times whole calls after each; so what is reported is the network's own speed, and no sum of estimates.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.blocks import block
from benchmarks.registry import Result

_SLICES = 8
_SHORTEST_S = 30.0


def tuned_slices(spec: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """A line for each slice of `spec["budget"]` seconds: seconds of tuning so far, and of a call now."""
    done = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.network_tuning", json.dumps(spec)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout is not None
    with done:
        for line in done.stdout:
            yield json.loads(line)
    if done.returncode:
        raise RuntimeError(f"tuning ended with status {done.returncode}; its error is above")


def tune_lines(case: str, spec: Mapping[str, Any], peer_s: float | None) -> Iterator[Result]:
    """The course of the tuning, and when it reached the speed of a peer whose call takes `peer_s` seconds."""
    slices = list(tuned_slices(spec))
    reached = [one["tuning_s"] for one in slices if peer_s is not None and one["call_s"] <= peer_s]
    yield {
        "case": f"{case}, tuning",
        "budget_s": spec["budget"],
        "seconds": [one["tuning_s"] for one in slices],
        "call_ms": [one["call_s"] * 1e3 for one in slices],
        "onnx_runtime_ms": None if peer_s is None else peer_s * 1e3,
        "reached_onnx_runtime_s": reached[0] if reached else None,
        "goal_s": 300,
    }


def main() -> None:
    import metasched as ms

    spec = json.loads(sys.argv[1])
    network: Any = ms.load_onnx(spec["model"], target=ms.Target.detect(threads=spec["threads"]), **spec["sizes"])
    with np.load(spec["inputs"]) as stored:
        inputs = {name: stored[name] for name in stored.files}
    spent = 0.0
    while True:
        seconds = statistics.median(block(lambda: network(**inputs)))
        print(json.dumps({"tuning_s": spent, "call_s": seconds}), flush=True)
        if spent >= spec["budget"]:
            return
        piece = min(max(_SHORTEST_S, spec["budget"] / _SLICES), spec["budget"] - spent)
        start = time.perf_counter()
        network.tune(budget=piece, db=spec["db"])
        spent += time.perf_counter() - start


if __name__ == "__main__":
    main()
