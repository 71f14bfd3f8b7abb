"""Sums over statements know what a statement that is not among the heaviest costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.yardstick.contestants import Contestant
from benchmarks.yardstick.details import CYCLES, DETAILED
from benchmarks.yardstick.samples import Samples
from benchmarks.yardstick.statement_sums import StatementSums, ThroughputSums
from metasched.cost.features import NAMES
from metasched.cost.learning.ranking import pair_accuracy
from tests.unit.benchmarks.yardstick.conftest import MakeSamples

LANES = [feature.name for feature in DETAILED].index("lanes")


@pytest.fixture
def in_fours(made_up: MakeSamples) -> list[Samples]:
    """Tasks of four statements that are estimated alike; those without lanes take eight times as long."""
    return [_in_fours(made_up(name, name, count=200)) for name in "abcd"]


def _in_fours(task: Samples) -> Samples:
    rng = np.random.default_rng(ord(task.task))
    scalar = rng.random((len(task), 4)) < 0.5
    statements = np.zeros((len(task), 4, len(DETAILED)), np.float32)
    statements[:, :, CYCLES] = np.log2(1001.0)
    statements[:, :, LANES] = np.where(scalar, 0.0, 4.0)
    features = task.features.copy()
    features[:, NAMES.index("all.total_cycles")] = np.log2(4001.0)
    seconds = (4 + 7 * scalar.sum(axis=1)) * rng.uniform(0.99, 1.01, len(task)) * 1e-6
    details = replace(task.details, statements=statements)
    return replace(task, features=features, details=details, first=seconds, second=seconds)


@pytest.mark.parametrize("contestant", [StatementSums(), ThroughputSums()], ids=lambda one: one.name)
def test_every_statement_counts(contestant: Contestant, in_fours: list[Samples]) -> None:
    *others, judged = in_fours
    score = contestant.train(others, None, 0)(judged).score
    assert pair_accuracy(score, judged.seconds) > 0.95


def test_a_sum_of_statements_is_a_time(in_fours: list[Samples]) -> None:
    """Twice as many slow statements are as much more time, whatever the others are: sums, and no products."""
    *others, judged = in_fours
    score = StatementSums().train(others, None, 0)(judged).score
    slow = (judged.details.statements[:, :, LANES] == 0).sum(axis=1)
    ratios = [np.exp2(-score[slow == n].mean() + score[slow == 0].mean()) for n in (1, 4)]
    assert ratios == pytest.approx([11 / 4, 32 / 4], rel=0.15)
