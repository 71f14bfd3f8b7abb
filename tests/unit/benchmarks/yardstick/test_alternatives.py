"""What models are weighed against learns: from other tasks, and more from records of the task itself."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.yardstick.alternatives import alternatives
from benchmarks.yardstick.contestants import Contestant, Trees, times_of
from benchmarks.yardstick.data import SPACE
from benchmarks.yardstick.details import details_of
from benchmarks.yardstick.network import Network
from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.learning.ranking import judge
from tests.support.targets import AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu, draw_rows

EVERYONE = [Trees(), *(one for one in alternatives() if not isinstance(one, Network)), Network(steps=200)]


def task(shape: tuple[int, int, int], seed: int, twist: float = 0.0) -> Samples:
    """Candidates of a product on a machine on which accumulators are dear, and on which the task has a `twist`."""
    func, rows = dense_relu(*shape), draw_rows(200, seed)
    features, details = FeatureProgram(func, COLUMNS, AVX512)(rows), details_of(func, COLUMNS, rows, AVX512)
    extra = 0.4 * features[:, NAMES.index("s0.accumulators")] + twist * features[:, NAMES.index("s0.vector_extent")]
    seconds = 1e-9 * np.exp2(-analytic_score(features) + extra)
    return Samples(str(shape), "product", None, SPACE, features, details, seconds, seconds, float(seconds.min()))


OTHERS = [task((64, 128, 256), 1), task((200, 300, 100), 2), task((512, 512, 64), 3), task((96, 700, 64), 4)]


def pairs(contestant: Contestant, own: Samples | None, judged: Samples) -> float:
    prediction = contestant.train(OTHERS, own, 0)(judged)
    return judge("task", prediction.score, None, judged.seconds).pairs


@pytest.mark.parametrize("contestant", EVERYONE, ids=lambda one: one.name)
def test_a_model_learns_from_other_tasks_and_from_own_records(contestant: Contestant) -> None:
    whole = task((333, 256, 128), 9, twist=0.5)
    own, rest = whole.take(np.arange(64)), whole.take(np.arange(64, len(whole)))
    by_roofline = judge("task", analytic_score(rest.features), None, rest.seconds).pairs
    plain = task((333, 256, 128), 9)
    assert pairs(contestant, None, plain) > judge("", analytic_score(plain.features), None, plain.seconds).pairs + 0.03
    assert pairs(contestant, own, rest) > max(by_roofline, pairs(contestant, None, rest)) + 0.01


def test_candidates_as_models_learn_from_them() -> None:
    assert np.array_equal(times_of(OTHERS[0]).seconds, OTHERS[0].seconds)
