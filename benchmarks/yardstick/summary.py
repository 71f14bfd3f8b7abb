"""What verdicts say as figures: means over tasks, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.registry import Result
from benchmarks.yardstick.evaluation import Verdict
from metasched.cost.learning.figures import FIGURES, Columns, calibration_of, columns_of, interval
from metasched.cost.learning.ranking import Judgement

# How many of the tasks that are ranked worst are named.
_WORST_COUNT = 5


def summary(verdict: Verdict) -> Result:
    """A line of output."""
    tasks = verdict.tasks
    columns = columns_of(tasks)
    line: Result = {
        "case": f"{verdict.contestant}; {verdict.protocol.value}; {verdict.pool}",
        "model": verdict.contestant,
        "protocol": verdict.protocol.value,
        "pool": verdict.pool,
        "tasks": len(tasks),
        "seeds": verdict.seeds,
    }
    for name, figure in FIGURES.items():
        line[name] = float(figure(columns))
        line[f"{name}_interval"] = interval(columns, figure)
    by_seed = [float(FIGURES["pair_accuracy"](columns_of(run))) for run in verdict.runs]
    worst = sorted(tasks, key=lambda one: one.pairs)[:_WORST_COUNT]
    line["pair_accuracy_by_seed"] = (min(by_seed), max(by_seed))
    line["pair_accuracy_worst"] = worst[0].pairs
    line["worst_tasks"] = {one.task: round(one.pairs, 3) for one in worst}
    line["fastest_quarter_worst"] = float(np.nanmin(columns["fast_pairs"]))
    return line | _of_the_twelve(tasks) | _calibration(columns)


def _of_the_twelve(tasks: Sequence[Judgement]) -> Result:
    """Pair accuracy of the twelve operators at the shapes that others are judged by; None where there are none."""
    found = [one.pairs for one in tasks if one.suite is not None]
    return {
        "twelve": len(found),
        "twelve_pair_accuracy": float(np.mean(found)) if found else None,
        "twelve_pair_accuracy_worst": min(found, default=None),
    }


def _calibration(columns: Columns) -> Result:
    """How well absolute times are told; None for scores that are no times."""
    return {name: None if np.isnan(value) else value for name, value in calibration_of(columns).items()}
