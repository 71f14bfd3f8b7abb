"""What features of lowered code add to those of the parametric program, on families of operators never seen.

`python -m benchmarks.yardstick.lowered [--tasks N] [--kept DIR]` lowers every candidate that was measured, trains the
same trees with and without the features of its code, and prints pair accuracy of both, with what 95% of bootstrap
samples of the tasks say of the difference. Lowering takes 20 to 100 ms a candidate, so ten minutes for all tasks; what
was lowered is kept in DIR.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.yardstick.code_features import CODE_NAMES, code_features, join_features
from benchmarks.yardstick.data import DATA, TimedTask, read_tasks
from benchmarks.yardstick.folds import LEAST_JUDGED
from benchmarks.yardstick.samples import features_of, sketch_of, task_key
from metasched.compiler.lower import lower
from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.lightgbm_package import lightgbm
from metasched.cost.learning.ranking import Array, fastest_quarter, pair_accuracy
from metasched.target import Target

_SEEDS = (0, 1)
_TREES = 200
_GROWING: dict[str, Any] = {
    "objective": "regression",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}
_SAMPLES = 2000


@dataclass(frozen=True)
class LoweredTask:
    """Candidates of a task: features of program and code, float32 (n, F), and seconds, shape (n,)."""

    family: str
    features: Features
    seconds: Array

    @property
    def residuals(self) -> Array:
        """The errors of the roofline in log2, centred."""
        left = np.log2(self.seconds) + analytic_score(self.features[:, : len(NAMES)])
        centred: Array = left - left.mean()
        return centred


def code_features_of(task: TimedTask) -> Features:
    """Features of the code of a task's candidates, in their order, float32 of shape (n, len(CODE_NAMES))."""
    target, program = Target.parse(task.target), task.program()
    sketches = {number: sketch_of(task, number, program) for number in {code.sketch for code in task.codes}}
    found = np.empty((len(task.codes), len(CODE_NAMES)), np.float32)
    for n, code in enumerate(task.codes):
        scheduled = sketches[code.sketch].trace_of(code.row).apply_to(program)
        found[n] = code_features(lower(scheduled.func, target), target)
    return found


def lowered_task(task: TimedTask, folder: Path | None) -> LoweredTask:
    """A task with the features of its candidates' code, from the folder if they are there."""
    path = None if folder is None else folder / f"{task_key(task, None)}.code.npy"
    if path is not None and path.exists():
        features: Features = np.load(path)
    else:
        features = join_features(features_of(task)[0], code_features_of(task))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, features)
    pool = [n for n in range(len(task.codes)) if str(n) not in task.known]
    seconds = np.array([min(code.first_s, code.second_s) for code in task.codes])
    return LoweredTask(task.family, features[pool], seconds[pool])


def judge_columns(tasks: Sequence[LoweredTask], columns: slice) -> Array:
    """Pair accuracy of each task, overall and in its fastest quarter, by trees on some columns: (tasks, 2).

    They are grown on tasks of other families; NaN for a task without others.
    """
    out = np.full((len(tasks), 2), np.nan)
    for family in dict.fromkeys(task.family for task in tasks):
        others = [task for task in tasks if task.family != family]
        if not others:
            continue
        forests = [_grow_trees(others, columns, seed) for seed in _SEEDS]
        for n, task in enumerate(tasks):
            if task.family == family:
                learned = np.mean([forest.predict(task.features[:, columns]) for forest in forests], axis=0)
                out[n] = _accuracy(analytic_score(task.features[:, : len(NAMES)]) - learned, task.seconds)
    return out


def _grow_trees(tasks: Sequence[LoweredTask], columns: slice, seed: int) -> Any:
    features = np.concatenate([task.features[:, columns] for task in tasks])
    weights = np.concatenate([np.sqrt(task.seconds.min() / task.seconds) for task in tasks])
    given, package = {**_GROWING, "seed": seed}, lightgbm()
    rows = package.Dataset(features, np.concatenate([task.residuals for task in tasks]), weight=weights, params=given)
    return package.train(given, rows, _TREES)


def _accuracy(score: Array, seconds: Array) -> tuple[float, float]:
    fastest = fastest_quarter(seconds)
    return pair_accuracy(score, seconds), pair_accuracy(score[fastest], seconds[fastest])


def difference(one: Array, other: Array, seed: int = 0) -> Array:
    """Where the mean of `other - one` over tasks lies in 95% of bootstrap samples: (2, 2), low and high by figure."""
    change = (other - one)[~np.isnan(one).any(axis=1)]
    drawn = np.random.default_rng(seed).integers(len(change), size=(_SAMPLES, len(change)))
    interval: Array = np.quantile(np.nanmean(change[drawn], axis=1), [0.025, 0.975], axis=0)
    return interval


def main() -> int:
    parser = argparse.ArgumentParser(description="What features of lowered code add to those of programs.")
    parser.add_argument("--data", type=Path, default=DATA, help="the file of measurements (default: %(default)s)")
    parser.add_argument("--tasks", type=int, metavar="N", help="use every so many of them, N in all")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="where features are kept")
    args = parser.parse_args()
    pools = [task for task in read_tasks(args.data) if task.pool == "space"]
    pools = pools[:: -(-len(pools) // args.tasks)] if args.tasks else pools
    tasks = [task for task in (lowered_task(pool, args.kept) for pool in pools) if len(task.seconds) >= LEAST_JUDGED]
    sets = {"of the program": slice(len(NAMES)), "of the code": slice(len(NAMES), None), "both": slice(None)}
    found = {name: judge_columns(tasks, columns) for name, columns in sets.items()}
    roofline = np.array([_accuracy(analytic_score(task.features[:, : len(NAMES)]), task.seconds) for task in tasks])
    print(f"{len(tasks)} tasks of {len({task.family for task in tasks})} families\n")
    print("| features | pairs (worst task) | fastest quarter |\n|---|---|---|")
    for name, figures in {"the roofline alone": roofline, **found}.items():
        pairs, quarter = np.nanmean(figures, axis=0)
        print(f"| {name} | {pairs:.3f} ({np.nanmin(figures[:, 0]):.3f}) | {quarter:.3f} |")
    low, high = difference(found["of the program"], found["both"])
    print(f"\nWhat code adds: {low[0]:+.3f} to {high[0]:+.3f}; in the fastest quarter {low[1]:+.3f} to {high[1]:+.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
