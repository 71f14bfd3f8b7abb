"""What `make run` shows: three real programs, tuned on this machine, next to NumPy and naive Numba, in one table.

`python -m benchmarks.run_main [--trials N] [--db URL] [--threads N]`. A second run with the same database measures no
candidate again, and times all sides anew.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import metasched as ms
from benchmarks.sides import OURS, UNSTEADY, SideTime, blas_name, compare
from benchmarks.tuning import program
from benchmarks.workloads import WORKLOADS
from metasched.cli.render import table
from metasched.report.progress_text import duration

PEERS = ("naive Numba", "numpy")
NAIVE = "for i in prange(N): for j in range(M): acc = 0; for k in range(K): acc += A[i, k] * B[k, j]"


def tune(name: str, trials: int, db: str, threads: int) -> str:
    target = ms.Target.detect(threads=threads)
    return str(ms.tune(program(name), trials=trials, db=db, target=target, progress=True).trace)


def row(name: str, sides: dict[str, SideTime]) -> list[str]:
    ours = sides[OURS].median
    cells = [WORKLOADS[name].title]
    for peer in PEERS:
        cells += [duration(sides[peer].median), f"{sides[peer].median / ours:.2f}x"]
    return [*cells, duration(ours), f"{program(name).flops / ours / 1e9:.1f}"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run_main", description=__doc__)
    parser.add_argument("--trials", type=int, default=64, help="measurements a program (default: %(default)s)")
    parser.add_argument("--db", default="sqlite:///metasched.db", help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all of them")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    rows = [["", "naive Numba", "/ ours", "NumPy", "/ ours", "metasched", "GFLOP/s"]]
    unsteady: list[str] = []
    for name in WORKLOADS:
        trace = tune(name, args.trials, args.db, args.threads)
        sides = compare(name, {OURS: trace}, PEERS, args.threads)
        rows.append(row(name, sides))
        unsteady += [f"{side} on {name}" for side, timed in sides.items() if timed.spread > UNSTEADY]
    print()
    print(table(rows, "<>>>>>>"))
    print(f"\n{args.threads} threads; medians, each side in its own process. A ratio above 1: metasched is faster.")
    if unsteady:
        print(
            f"The machine was busy: times of the same kernel differ by over {UNSTEADY - 1:.0%} ({', '.join(unsteady)})."
        )
    print(f"NumPy: {blas_name()}. Naive Numba, njit(parallel=True, fastmath=True):\n    {NAIVE}")
    print(f"{time.perf_counter() - start:.0f} s in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
