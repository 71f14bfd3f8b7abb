"""What judgements of tasks say as figures: means over tasks, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from metasched.cost.learning.ranking import REGRET_COUNTS, TOP_COUNTS, Array, Judgement

RESAMPLES = 1000
LEVEL = 0.95

# Columns of numbers over tasks, (tasks,), or over samples of tasks, (samples, tasks); what is made of them has one axis
# less.
Columns = Mapping[str, Array]
Figure = Callable[[Columns], Array]


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
    **{f"top{k}_score": _share_of_sums("best", f"top{k}") for k in TOP_COUNTS},
    "recall_10_in_30": _mean("recall"),
    **{f"regret_{k}": _geometric(f"top{k}", "best") for k in REGRET_COUNTS},
    **{f"regret_{k}_of_known": _geometric(f"top{k}", "known") for k in REGRET_COUNTS},
}


def columns_of(judgements: Sequence[Judgement]) -> dict[str, Array]:
    """Numbers of all tasks by name, each of shape (tasks,)."""
    names = ("pairs", "fast_pairs", "recall", "best", "known", "bias", "spread")
    columns = {name: np.array([getattr(one, name) for one in judgements], np.float64) for name in names}
    tops = {f"top{k}": np.array([one.best_of_top[k] for one in judgements]) for k in judgements[0].best_of_top}
    return columns | tops


def interval(columns: Columns, figure: Figure) -> tuple[float, float]:
    """The middle 95 % of a figure over samples of as many tasks, drawn with replacement."""
    count = len(next(iter(columns.values())))
    chosen = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    found = figure({name: values[chosen] for name, values in columns.items()})
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def figures(judgements: Sequence[Judgement]) -> dict[str, float]:
    """Every figure of some tasks, and how well absolute times are told."""
    columns = columns_of(judgements)
    found = {name: float(figure(columns)) for name, figure in FIGURES.items()}
    return found | calibration_of(columns)


def calibration_of(columns: Columns) -> dict[str, float]:
    """How far expected times are from measured ones, as log2(expected / measured): the median over tasks of their
    medians, the spread of those between tasks, and the spread inside a task; NaN for scores that are no times.
    """
    low, middle, high = np.quantile(columns["bias"], [0.1587, 0.5, 0.8413])
    return {
        "log2_expected_over_measured": float(middle),
        "spread_of_tasks": float(high - low) / 2,
        "spread_in_task": float(np.median(columns["spread"])),
    }
