"""Models are judged on kinds of tasks that they were not trained on, and replaced by none that ranks worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.held_out import KindOfTask, adapt_model, judge_held_out, train_on_all
from metasched.cost.learning.importance import groups, importances
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL, TaughtTask, TrainedModel
from metasched.cost.learning.training import residual, train
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows

PAIRS = NAMES.index("s0.accumulators")


def task(kind: str, shape: tuple[int, int, int], count: int = 60) -> KindOfTask:
    features = FeatureProgram(dense_relu(*shape), COLUMNS, AVX512)(draw_rows(count, shape[0]))
    seconds = np.exp2(-analytic_score(features) + 0.3 * features[:, PAIRS]) * 1e-9
    return KindOfTask(TaughtTask(f"hash {shape}", kind, count), kind, "target", TaskTimes(features, seconds))


TASKS = [task("a", (64, 128, 256)), task("a", (200, 300, 100)), task("b", (512, 512, 64)), task("c", (96, 700, 64), 8)]


def test_nothing_is_judged_by_a_model_that_was_trained_on_its_kind() -> None:
    seen: list[int] = []

    def make(tasks: Sequence[TaskTimes]) -> TrainedModel:
        seen.append(len(tasks))
        assert not any(one is other.times for one in tasks for other in TASKS if other.kind == "ab"[len(seen) - 1])
        return UNTRAINED_MODEL

    judged = judge_held_out(TASKS, make)
    assert [one.task for one in judged] == ["a", "a", "b"], "of the last there are too few candidates"
    assert seen == [2, 3]


def test_a_model_says_what_it_was_trained_on_and_goes_by() -> None:
    model = train_on_all(TASKS, "2026-11-22", "some versions")
    assert TrainedModel.loads(model.dumps()) == model
    assert model.facts.records == 188
    assert model.facts.targets == ("target",)
    assert dict(model.facts.held_out)["pair_accuracy"] > 0.7
    shares = importances(model)
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert set(groups()) == set(NAMES)
    assert groups()["s0.accumulators"] == "registers"
    assert importances(UNTRAINED_MODEL) == {}


def test_a_model_that_starts_from_another_has_its_trees_and_learns() -> None:
    base = train([TASKS[0].times])
    slower = [TaskTimes(one.times.features, one.times.seconds * 8) for one in TASKS[1:3]]
    made = adapt_model(base, slower)
    assert [tree.nodes for tree in made.forest.trees] == [tree.nodes for tree in base.forest.trees]
    for one in slower:
        assert abs(residual(one, made)).mean() < 0.2 * abs(residual(one, base)).mean()
    assert adapt_model(base, []) == base
    assert TrainedModel.loads(made.dumps()) == made


def test_a_model_that_starts_from_another_learns_of_tile_registers_in_their_forest() -> None:
    """What nests in tile registers teach moves the trees for these, too; what others teach leaves them as they are."""
    in_tiles, others = [], [one.times for one in TASKS[:2]]
    for one in TASKS[:2]:
        features = one.times.features.copy()
        features[:, NAMES.index("s0.flops_per_operation")] = 14.0
        in_tiles.append(TaskTimes(features, np.exp2(-analytic_score(features) - 0.3 * features[:, PAIRS]) * 1e-9))
    base = train([*others, *in_tiles])
    steeper = [TaskTimes(one.features, one.seconds * np.exp2(-0.3 * one.features[:, PAIRS])) for one in in_tiles]
    made, by_others = (
        adapt_model(base, steeper),
        adapt_model(base, [TaskTimes(one.features, one.seconds**2) for one in others]),
    )
    assert [tree.nodes for tree in made.trees] == [tree.nodes for tree in base.trees]
    first_only = replace(made, tiles=base.tiles)
    assert residual(steeper[0], made).std() < 0.8 * residual(steeper[0], first_only).std()
    assert by_others.tiles == base.tiles
    assert by_others.forest != base.forest
    assert TrainedModel.loads(made.dumps()) == made
