"""Training the model that is installed with the package, on all of the yardstick's measurements.

`python -m benchmarks.yardstick.train [--data FILE ...] [--kept DIR] [--out FILE] [--anyway]` computes features from the
sources at hand, trains, and writes the model's text: to be done after every change of a feature, of training or of the
measurements. It takes about three minutes, most of it for features; `--kept DIR` keeps them for the next run.

`--tiles` leaves the forest as it is that ranks all candidates, and only trains that of nests in tile registers: after
new measurements of tensor instructions. It is compared by models both of whose forests are trained anew.

The text says how well models rank families of operators that are left out in training. A new one that ranks them worse
than the one it would replace, from the same measurements, is not written, and neither is one that cannot be compared,
unless `--anyway` is given: after the measurements were made anew.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.yardstick.data import DATA, TENSOR_DATA, TimedTask, read_tasks
from benchmarks.yardstick.samples import all_features
from metasched.cost.learning.held_out import KEPT_FIGURES, KindOfTask, train_on_all
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import SHIPPED_FILE, ModelError, TaughtTask, TrainedModel, read_model
from metasched.cost.learning.training import add_tile_forest
from metasched.database.record import code_version
from metasched.support.messages import with_hint

# By how much a figure of one training varies with the seed.
NOISE = 0.002


def task_times(tasks: Sequence[TimedTask], processes: int, folder: Path | None) -> Iterator[KindOfTask]:
    """What is measured of each task, what experts wrote included; of two times the lesser."""
    for task, (features, _) in zip(tasks, all_features(tasks, None, processes, folder), strict=True):
        times = TaskTimes(features, np.array([min(code.first_s, code.second_s) for code in task.codes]))
        taught = TaughtTask(task.program().structural_hash(), f"{task.spec.name} ({task.pool})", len(task.codes))
        yield KindOfTask(taught, task.family, task.target, times)


def current(path: Path) -> TrainedModel | None:
    """The model that is there; None where there is none, or only one that this version does not read."""
    try:
        return read_model(path)
    except (FileNotFoundError, ModelError):
        return None


def with_other_tiles(old: TrainedModel, tasks: Sequence[KindOfTask], date: str) -> TrainedModel:
    """A model with another forest for tile registers. What was held out is of models both of whose forests were trained
    anew: the one that stays has seen the kinds that are left out."""
    both = train_on_all(tasks, date, code_version())
    first = replace(old, facts=replace(both.facts, gains=old.facts.gains))
    return add_tile_forest(first, [task.times for task in tasks])


def objection(new: TrainedModel, old: TrainedModel) -> str | None:
    """Why a model is not to replace another: on kinds left out, from the same measurements, it ranks fewer pairs right.

    None where it ranks as many, up to what chance does. Raises nothing where they cannot be compared: that is an
    objection, too.
    """
    mine, theirs = dict(new.facts.held_out), dict(old.facts.held_out)
    name = KEPT_FIGURES[0]
    if new.facts.data != old.facts.data or name not in mine or name not in theirs:
        return "they were trained on other measurements, so that nobody knows which ranks better"
    if mine[name] < theirs[name] - NOISE:
        return f"of kinds left out it ranks {mine[name]:.4f} of the pairs right, and the other {theirs[name]:.4f}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the model that is installed on the yardstick's measurements.")
    own = (DATA, TENSOR_DATA)
    parser.add_argument("--data", type=Path, nargs="+", default=own, help="measurements (default: the repository's)")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="where computed features are kept")
    parser.add_argument("--out", type=Path, default=SHIPPED_FILE, help="the file to write (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="in how many features are computed")
    parser.add_argument("--tiles", action="store_true", help="train the forest for tile registers only")
    parser.add_argument("--anyway", action="store_true", help="write it even if the one that is there ranks better")
    args = parser.parse_args()
    tasks = [task for file in args.data for task in read_tasks(file)]
    if not tasks:
        files = ", ".join(map(str, args.data))
        parser.error(with_hint(f"{files}: no measurements", "python -m benchmarks.yardstick.collect makes them"))
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    old = current(args.out)
    if args.tiles and old is None:
        parser.error(with_hint(f"{args.out} is no model that a forest could be added to", "train without --tiles"))
    times = list(task_times(tasks, args.processes, args.kept))
    if args.tiles and old is not None:
        model = with_other_tiles(old, times, today)
    else:
        model = train_on_all(times, today, code_version())
    print(f"families left out: {', '.join(f'{name} {value}' for name, value in model.facts.held_out)}")
    against = None if old is None or args.anyway else objection(model, old)
    if against is not None:
        print(f"{args.out} stays as it is: {against}")
        return 1
    args.out.write_text(model.dumps(), encoding="utf-8")
    print(f"{args.out}: {len(model.trees)} trees of {len(tasks)} pools, {args.out.stat().st_size / 1024:.0f} KB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
