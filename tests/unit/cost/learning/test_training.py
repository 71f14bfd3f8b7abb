"""Training on many tasks: what they have in common is learned, and what sets a task apart is not."""

from __future__ import annotations

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL
from metasched.cost.learning.training import add_tile_forest, residual, train
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows

PAIRS = NAMES.index("s0.accumulators")


def task(shape: tuple[int, int, int], seed: int, clock: float = 1e9) -> TaskTimes:
    """Times of a machine on which every doubling of the accumulators costs a tenth, and of another clock."""
    features = FeatureProgram(dense_relu(*shape), COLUMNS, AVX512)(draw_rows(80, seed))
    return TaskTimes(features, np.exp2(-analytic_score(features) + 0.14 * features[:, PAIRS]) / clock)


TASKS = [task((64, 128, 256), 1), task((200, 300, 100), 2, 4e9), task((512, 512, 64), 3), task((96, 700, 64), 4, 4e9)]


def test_what_tasks_have_in_common_is_learned_whatever_sets_them_apart() -> None:
    learned, unseen = train(TASKS), task((333, 256, 128), 9)
    left = unseen.log_seconds - learned.log_seconds(unseen.features)
    assert left.std() < 0.4 * residual(unseen).std()
    # What differs between tasks of different clocks is nothing that a candidate's features could say.
    moved = train([TASKS[0], task((200, 300, 100), 2), TASKS[2], task((96, 700, 64), 4)])
    assert np.allclose(moved.forest.values, learned.forest.values, atol=1e-5)


def test_tasks_of_tile_registers_teach_a_forest_of_their_own() -> None:
    """What the others teach stays as it is, and so does what is expected of them."""
    tiled = []
    for one in TASKS[:2]:
        features = one.features.copy()
        features[:, NAMES.index("s0.flops_per_operation")] = 14.0
        tiled.append(TaskTimes(features, np.exp2(-analytic_score(features) - 0.3 * features[:, PAIRS]) / 1e9))
    learned, both = train(TASKS), train([*TASKS, *tiled])
    assert both.forest == learned.forest
    assert both.offset == learned.offset
    assert not learned.tiles.trees
    assert add_tile_forest(learned, [*TASKS, *tiled]) == both
    assert add_tile_forest(both, TASKS) == learned
    assert np.array_equal(both.log_seconds(TASKS[2].features), learned.log_seconds(TASKS[2].features))
    assert residual(tiled[0], both).std() < 0.5 * residual(tiled[0], learned).std()


def test_equal_data_and_seeds_give_equal_models() -> None:
    assert train(TASKS, 1) == train(TASKS, 1, threads=2)
    assert train(TASKS, 1) != train(TASKS, 2)


def test_without_times_the_model_is_the_roofline() -> None:
    failed = TaskTimes(TASKS[0].features, np.full(len(TASKS[0]), np.inf))
    assert train([]) == train([failed]) == UNTRAINED_MODEL
    assert train([*TASKS, failed]) == train(TASKS)


def test_a_cycle_of_the_roofline_takes_the_median_of_tasks() -> None:
    expected = np.median([residual(task).mean() for task in TASKS])
    assert train(TASKS).offset == expected
