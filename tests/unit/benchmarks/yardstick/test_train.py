"""Training the model that is installed: what stays of the one that is there, and what the new one says of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.yardstick.train import objection, with_other_tiles
from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.held_out import KindOfTask, train_on_all
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.learning.trained import UNTRAINED_MODEL, TaughtTask, TrainedModel
from metasched.database.record import code_version
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows

DATE = "2026-11-28"


def task(kind: str, shape: tuple[int, int, int], flops_per_operation: float, slope: float) -> KindOfTask:
    features = FeatureProgram(dense_relu(*shape), COLUMNS, AVX512)(draw_rows(80, shape[0]))
    features[:, NAMES.index("s0.flops_per_operation")] = flops_per_operation
    seconds = np.exp2(-analytic_score(features) + slope * features[:, NAMES.index("s0.accumulators")]) * 1e-9
    return KindOfTask(TaughtTask(f"hash {shape}", kind, 80), kind, "target", TaskTimes(features, seconds))


OTHERS = [task("a", (64, 128, 256), 5.0, 0.3), task("b", (200, 300, 100), 5.0, 0.3)]
IN_TILES = [task("a", (512, 512, 64), 14.0, -0.3), task("b", (96, 700, 64), 14.0, -0.3)]


def test_another_forest_for_tile_registers_is_compared_as_both_would_be() -> None:
    old = train_on_all([*OTHERS, IN_TILES[0]], DATE, code_version())
    tasks = [*OTHERS, *IN_TILES]
    made, anew = with_other_tiles(old, tasks, DATE), train_on_all(tasks, DATE, code_version())
    assert (made.forest, made.offset, made.facts.gains) == (old.forest, old.offset, old.facts.gains)
    assert made.tiles == anew.tiles != old.tiles
    assert made.facts == anew.facts
    better = replace(made, facts=replace(made.facts, held_out=(("pair_accuracy", 1.0),)))
    worse = replace(made, facts=replace(made.facts, held_out=(("pair_accuracy", 0.5),)))
    assert objection(made, anew) is None
    assert "of kinds left out" in str(objection(worse, better))
    assert "other measurements" in str(objection(made, old))


def test_a_model_is_not_replaced_by_one_that_ranks_worse_or_cannot_be_compared() -> None:
    old = TrainedModel(
        UNTRAINED_MODEL.forest, 0.0, replace(UNTRAINED_MODEL.facts, data="d", held_out=(("pair_accuracy", 0.84),))
    )

    def new(pairs: float, data: str = "d") -> TrainedModel:
        return replace(old, facts=replace(old.facts, data=data, held_out=(("pair_accuracy", pairs),)))

    assert objection(new(0.85), old) is None
    assert objection(new(0.839), old) is None
    assert "0.8300 of the pairs right, and the other 0.8400" in str(objection(new(0.83), old))
    assert "other measurements" in str(objection(new(0.9, "e"), old))
    assert "other measurements" in str(objection(UNTRAINED_MODEL, old))
