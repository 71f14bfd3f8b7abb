"""How well scores rank the candidates of one task, whose times are known.

Scores are higher for what is thought to be faster; times are in seconds. All arrays have shape (n,).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from metasched.support.data_classes import dataclass

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]
Order = np.ndarray[Any, np.dtype[np.int64]]

# Pairs whose times differ by less are not asked for: which is faster changes from one measurement to the next.
LEAST_TIME_GAP = 0.02
# How many of the favourites are measured, as regret is told; TenSet tells the score of the top 1 and 5.
REGRET_COUNTS = (1, 8, 16)
TOP_COUNTS = (1, 5)
# Of the ten fastest, how many are among the thirty favourites.
FASTEST, FAVOURITES = 10, 30
# Between these shares of a normal distribution lie two standard deviations.
_LOW, _HIGH = 0.1587, 0.8413


def pair_accuracy(score: Array, seconds: Array) -> float:
    """The share of pairs ranked right, among those whose times differ by over `LEAST_TIME_GAP`; a tied score is half
    right.

    NaN where no two times differ so much.
    """
    _require_numbers(score)
    slower = seconds[:, None] > seconds[None, :] * (1.0 + LEAST_TIME_GAP)
    asked = int(slower.sum())
    if asked == 0:
        return float("nan")
    right = (score[:, None] < score[None, :]) + 0.5 * (score[:, None] == score[None, :])
    return float(right[slower].sum() / asked)


def fastest_quarter(seconds: Array) -> Order:
    """Positions of the fastest quarter of the candidates, at least two."""
    return np.argsort(seconds, kind="stable")[: max(2, len(seconds) // 4)]


def favourites(score: Array, seed: int = 0) -> Order:
    """Positions by score, the highest first. Ties are in an order that depends on the seed alone: candidates come in
    the order of their sketches, which a model that cannot tell them apart must not gain by.
    """
    _require_numbers(score)
    return np.lexsort((np.random.default_rng(seed).permutation(len(score)), -score))


def best_of_top(order: Order, seconds: Array, count: int) -> float:
    """The time of the fastest of the first `count` favourites."""
    return float(seconds[order[:count]].min())


def recall(order: Order, seconds: Array) -> float:
    """The share of the fastest candidates that are among the favourites."""
    wanted = np.argsort(seconds, kind="stable")[:FASTEST]
    return float(np.isin(wanted, order[:FAVOURITES]).mean())


def calibration(expected: Array, seconds: Array) -> tuple[float, float]:
    """The median of log2(expected time / time), and its spread: half of what the middle 68 % range over, which is the
    standard deviation of a normal distribution.
    """
    error = np.log2(expected / seconds)
    low, middle, high = np.quantile(error, [_LOW, 0.5, _HIGH])
    return float(middle), float(high - low) / 2


@dataclass(frozen=True)
class Judgement:
    """What was found for one task (`suite` is its name among the twelve operators, if it is one): shares of pairs,
    recall, and times in seconds.

    `best_of_top` has the time of the best of the top k by k, of `REGRET_COUNTS` and `TOP_COUNTS`. `best` is the fastest
    of the candidates judged, `known` the fastest of the task that is known at all. `bias` and `spread` are of the
    absolute time, in powers of two; NaN for scores that are no times.
    """

    task: str
    suite: str | None
    pairs: float
    fast_pairs: float
    recall: float
    best_of_top: dict[int, float]
    best: float
    known: float
    bias: float
    spread: float


def judge(
    task: str,
    score: Array,
    expected: Array | None,
    seconds: Array,
    known: float | None = None,
    seed: int = 0,
    suite: str | None = None,
) -> Judgement:
    """All metrics of one task.

    Args:
        task: its name.
        score: higher for what is thought to be faster, shape (n,), n > 1.
        expected: the seconds that are expected, shape (n,); None for scores that are no times.
        seconds: the times, shape (n,).
        known: the least time known of the task, where that is less than all `seconds`.
        seed: of the order of ties.
        suite: its name among the twelve operators, if it is one.
    """
    if not len(score) == len(seconds) > 1:
        raise ValueError(f"{task}: {len(score)} scores for {len(seconds)} times; there should be two at least")
    order, fast = favourites(score, seed), fastest_quarter(seconds)
    bias, spread = (float("nan"), float("nan")) if expected is None else calibration(expected, seconds)
    best = float(seconds.min())
    return Judgement(
        task=task,
        suite=suite,
        pairs=pair_accuracy(score, seconds),
        fast_pairs=pair_accuracy(score[fast], seconds[fast]),
        recall=recall(order, seconds),
        best_of_top={k: best_of_top(order, seconds, k) for k in dict.fromkeys((*REGRET_COUNTS, *TOP_COUNTS))},
        best=best,
        known=best if known is None else min(best, known),
        bias=bias,
        spread=spread,
    )


def _require_numbers(score: Array) -> None:
    if not np.isfinite(score).all():
        raise ValueError(f"{int((~np.isfinite(score)).sum())} of {len(score)} scores are not finite")
