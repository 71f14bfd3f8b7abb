"""Features of lowered code are finite, the same for the same code, and tell apart what a program's do not."""

from __future__ import annotations

import numpy as np

from benchmarks.yardstick.code_features import CODE_NAMES, HEAVIEST, JOINED_NAMES, TOTALS, code_features, join_features
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, Features, features_of
from metasched.schedule.trace import Schedule
from tests.support.targets import AVX512

from .test_code_runs import tiled


def of(schedule: Schedule) -> Features:
    return code_features(lower(schedule.func, AVX512), AVX512)


def value(features: Features, name: str) -> float:
    return float(np.exp2(features[CODE_NAMES.index(f"code.{name}")]) - 1)


def test_there_is_a_name_for_each() -> None:
    features = of(tiled(8, 32))
    assert features.dtype == np.float32
    assert len(features) == len(CODE_NAMES) == len(TOTALS) + len(HEAVIEST)
    assert len(set(JOINED_NAMES)) == len(JOINED_NAMES)
    assert np.isfinite(features).all()


def test_a_tile_of_two_operands_is_bound_by_its_multiplications() -> None:
    features = of(tiled(8, 32))
    cycles = 8 * 2 * 32 * 16 / 2
    assert cycles <= value(features, "bound_cycles") < 1.2 * cycles
    assert value(features, "waiting_cycles") < cycles


def test_few_accumulators_wait() -> None:
    features = of(tiled(1, 16))
    assert value(features, "waiting_cycles") > 2 * value(features, "bound_cycles")
    assert value(features, "cycles") >= value(features, "waiting_cycles")


def test_what_a_tile_leaves_over_is_more_code() -> None:
    whole, left_over = of(tiled(8, 16)), of(tiled(8, 16, N=61))
    assert value(left_over, "static") > 1.3 * value(whole, "static")


def test_beside_the_features_of_the_program() -> None:
    schedule = tiled(8, 32)
    program = np.stack([features_of(schedule.func, AVX512)] * 3)
    code = np.stack([of(schedule)] * 3)
    together = join_features(program, code)
    assert together.shape == (3, len(JOINED_NAMES))
    assert together.dtype == np.float32
    ratio = together[0, JOINED_NAMES.index("code.cycles/roofline")]
    assert ratio == code[0, 0] - program[0, NAMES.index("all.total_cycles")]
