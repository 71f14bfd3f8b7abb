"""What the model believed of candidates before they were measured, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import exp2, log2

import numpy as np

from metasched.report.candidates import MeasuredCandidate
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class BatchBelief:
    """One batch: how many of its candidates have both times, and by what factor what was expected was off (median)."""

    batch: int
    count: int
    factor: float


@dataclass(frozen=True)
class Belief:
    """How well the model knew.

    Attributes:
        count: the candidates of which something was expected that have a time.
        factor: by what factor an expected time was off, in the median, bounds left out.
        rank_correlation: of expected and measured times (Spearman), bounds included; None for fewer than three.
        place_of_best: the place, from 1 on, of the fastest candidate among all by what was expected of them.
        batches: the same factor batch by batch: whether it learned.
    """

    count: int
    factor: float
    rank_correlation: float | None
    place_of_best: int
    batches: tuple[BatchBelief, ...]


def belief_of(candidates: Sequence[MeasuredCandidate]) -> Belief | None:
    """What is known of the model's belief; None where nothing was asked of it, or nothing has a time."""
    told = [c for c in candidates if c.expected_seconds is not None and c.seconds is not None]
    sure = [c for c in told if not c.bound]
    if not sure:
        return None
    expected, measured = [_log_expected(c) for c in told], [_log_measured(c) for c in told]
    correlation = _spearman(expected, measured) if len(told) > 2 else None
    best = min(sure, key=_log_measured)
    place = 1 + sum(value < _log_expected(best) for value in expected)
    batches = [
        BatchBelief(batch, len(some), _factor(some))
        for batch, group in groupby(sorted(sure, key=lambda c: c.batch), lambda c: c.batch)
        for some in [list(group)]
    ]
    return Belief(len(told), _factor(sure), correlation, place, tuple(batches))


def _factor(candidates: Sequence[MeasuredCandidate]) -> float:
    return exp2(float(np.median([abs(_log_expected(c) - _log_measured(c)) for c in candidates])))


def _log_expected(candidate: MeasuredCandidate) -> float:
    assert candidate.expected_seconds is not None
    return log2(candidate.expected_seconds)


def _log_measured(candidate: MeasuredCandidate) -> float:
    assert candidate.seconds is not None
    return log2(candidate.seconds)


def _spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    a, b = (_ranks(np.array(values)) for values in (first, second))
    if not (np.ptp(a) and np.ptp(b)):
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The places of values in their order, equal ones at the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: np.ndarray[tuple[int], np.dtype[np.float64]] = (ends - (counts - 1) / 2.0)[inverse]
    return means
