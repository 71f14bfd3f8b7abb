"""How good the kernels are: 64 trials of dense + ReLU 512^3, five times with different seeds, against its peers."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.registry import Options, Result
from benchmarks.sides import OURS, SideTime, blas_name, compare
from benchmarks.tuning import tuned_trace

WORKLOAD = "dense_relu"
PEERS = ("numpy", "naive Numba", "naive Numba i-k-j")


def run(options: Options) -> Iterator[Result]:
    seeds, trials = (1, 8) if options.quick else (5, 64)
    times: list[dict[str, SideTime]] = []
    for seed in range(seeds):
        trace = tuned_trace(WORKLOAD, trials=trials, seed=seed, threads=options.threads)
        sides = compare(WORKLOAD, {OURS: trace}, PEERS, options.threads)
        times.append(sides)
        for peer in PEERS:
            spreads = {"ours_spread": sides[OURS].spread, "peer_spread": sides[peer].spread}
            case = f"{WORKLOAD} seed {seed}"
            yield line(case, peer, sides[OURS].median, sides[peer].median, options, trials) | spreads
    for peer in PEERS:
        ours = statistics.median(sides[OURS].median for sides in times)
        theirs = statistics.median(sides[peer].median for sides in times)
        ratio = statistics.median(sides[peer].median / sides[OURS].median for sides in times)
        yield {**line(f"{WORKLOAD} median of {seeds} seeds", peer, ours, theirs, options, trials), "ratio": ratio}


def line(case: str, peer: str, ours: float, theirs: float, options: Options, trials: int) -> Result:
    return {
        "case": case,
        "ours_ms": ours * 1e3,
        "peer": f"NumPy, {blas_name()}" if peer == "numpy" else peer,
        "peer_ms": theirs * 1e3,
        "ratio": theirs / ours,
        "trials": trials,
        "threads": options.threads,
    }
