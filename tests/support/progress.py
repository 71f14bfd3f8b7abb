"""Moments of a search, as its views get them."""

from __future__ import annotations

from metasched.report.progress import Progress

RUNNING = Progress(
    task="dense_relu[N=512]",
    trials=37,
    total=64,
    best_s=2.134e-3,
    gflops=125.84,
    failures={"wrong-result": 1, "run-timeout": 2},
    elapsed_s=12.4,
    left_s=67.0,
)
STARTING = Progress("dense", 1, 64, None, None, {}, 0.4, None)
