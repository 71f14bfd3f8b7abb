"""Training the model that is installed with the package, on all of the yardstick's measurements.

`python -m benchmarks.yardstick.train [--data FILE] [--kept DIR] [--out FILE]` computes features from the sources at
hand, trains, and writes the model's text: to be done after every change of a feature, of training or of the
measurements. It takes about three minutes, most of it for features; `--kept DIR` keeps them for the next run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.yardstick.data import DATA, TimedTask, read
from benchmarks.yardstick.samples import all_features
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.task_times import TaskTimes
from metasched.cost.trained import SHIPPED
from metasched.cost.training import train


def task_times(tasks: Sequence[TimedTask], processes: int, folder: Path | None) -> Iterator[TaskTimes]:
    """What is measured of each task, what experts wrote included; of two times the lesser."""
    for task, (features, _) in zip(tasks, all_features(tasks, DEFAULT_CORE, processes, folder), strict=True):
        yield TaskTimes(features, np.array([min(code.first_s, code.second_s) for code in task.codes]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the model that is installed on the yardstick's measurements.")
    parser.add_argument("--data", type=Path, default=DATA, help="the file of measurements (default: %(default)s)")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="where computed features are kept")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the file to write (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="in how many features are computed")
    args = parser.parse_args()
    tasks = list(read(args.data))
    if not tasks:
        parser.error(f"{args.data} has no measurements. Hint: python -m benchmarks.yardstick.collect makes them")
    model = train(list(task_times(tasks, args.processes, args.kept)))
    args.out.write_text(model.dumps(), encoding="utf-8")
    print(f"{args.out}: {len(model.forest.trees)} trees of {len(tasks)} pools, {args.out.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
