"""What verdicts say as figures: means over tasks, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.registry import Result
from benchmarks.yardstick.evaluation import Verdict
from benchmarks.yardstick.metrics import REGRETS, TOPS, Array, Judgement

RESAMPLES = 1000
LEVEL = 0.95
# How many of the tasks that are ranked worst are named.
_WORST = 5

# Columns of numbers over tasks, (tasks,), or over samples of tasks, (samples, tasks); what is made of them has one axis
# less.
_Columns = Mapping[str, Array]
Figure = Callable[[_Columns], Array]


def _mean(name: str) -> Figure:
    return lambda columns: np.nanmean(columns[name], axis=-1)


def _geometric(numerator: str, denominator: str) -> Figure:
    return lambda columns: np.exp(np.mean(np.log(columns[numerator] / columns[denominator]), axis=-1))


def _share_of_sums(numerator: str, denominator: str) -> Figure:
    return lambda columns: columns[numerator].sum(axis=-1) / columns[denominator].sum(axis=-1)


# TenSet's score (Zheng et al., NeurIPS 2021 datasets, section 5.1): the sum of the best latencies, each weighted by how
# often its task is in a network, over the sum of the best among the top k. Here each task counts once.
FIGURES: Mapping[str, Figure] = {
    "pair_accuracy": _mean("pairs"),
    "fastest_quarter": _mean("fast_pairs"),
    **{f"top{k}_score": _share_of_sums("best", f"top{k}") for k in TOPS},
    "recall_10_in_30": _mean("recall"),
    **{f"regret_{k}": _geometric(f"top{k}", "best") for k in REGRETS},
    **{f"regret_{k}_of_known": _geometric(f"top{k}", "known") for k in REGRETS},
}


def columns_of(judgements: Sequence[Judgement]) -> dict[str, Array]:
    """Numbers of all tasks by name, each of shape (tasks,)."""
    names = ("pairs", "fast_pairs", "recall", "best", "known", "bias", "spread")
    columns = {name: np.array([getattr(one, name) for one in judgements], np.float64) for name in names}
    tops = {f"top{k}": np.array([one.best_of_top[k] for one in judgements]) for k in judgements[0].best_of_top}
    return columns | tops


def interval(columns: _Columns, figure: Figure, seed: int = 0) -> tuple[float, float]:
    """The middle 95 % of a figure over samples of as many tasks, drawn with replacement."""
    count = len(next(iter(columns.values())))
    chosen = np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))
    found = figure({name: values[chosen] for name, values in columns.items()})
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


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
    worst = sorted(tasks, key=lambda one: one.pairs)[:_WORST]
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


def _calibration(columns: _Columns) -> Result:
    """Of log2(expected / measured): the median over tasks of their medians, the spread of those between tasks, and the
    spread inside a task; None for scores that are no times."""
    bias = columns["bias"]
    if np.isnan(bias).any():
        return {"log2_expected_over_measured": None, "spread_of_tasks": None, "spread_in_task": None}
    low, high = np.quantile(bias, [0.1587, 0.8413])
    return {
        "log2_expected_over_measured": float(np.median(bias)),
        "spread_of_tasks": float(high - low) / 2,
        "spread_in_task": float(np.median(columns["spread"])),
    }
