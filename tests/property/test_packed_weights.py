"""Random schedules of programs with weights: packed ahead of time, they give the bits of the whole kernel."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ScheduleError
from tests.property.fuzz.fuzz_actions import ACTIONS, Spot

HOST = ms.Target.detect(threads=2)
TEXT = """
program weighted[N=6, M=20, K=7](X: f32[N, K], const W: f32[K, M], const bias: f32[M]) -> Y: f32[N, M]:
    V: f32[K, M]
    D: f32[N, M]
    squared: V[k, j] = W[k, j] * W[k, j] + bias[j]
    dense: D[i, j] = sum[k](X[i, k] * V[k, j])
    Y[i, j] = max(D[i, j] + bias[j], 0)
"""
STEPS = [
    "split",
    "reorder",
    "fuse",
    "parallel",
    "vectorize",
    "unroll",
    "annotate",
    "transform_layout",
    "storage_align",
    "cache_read",
    "cache_write",
    "compute_at",
    "compute_inline",
    "decompose_reduction",
    "set_scope",
    "loop_partition",
]


def scheduled(seed: int) -> ms.Schedule:
    rng = np.random.default_rng(seed)
    schedule = ms.Schedule(ms.parse_program(TEXT), seed=seed)
    for _ in range(int(rng.integers(4, 16))):
        spot = Spot(schedule, rng)
        try:
            spot.pick(ACTIONS[spot.pick(STEPS)])(spot)
        except ScheduleError as error:
            assert error.message
    return schedule


@pytest.mark.parametrize("group", range(2))
def test_packed_weights_give_the_same_bits(group: int) -> None:
    packed, rng = 0, np.random.default_rng(group)
    shapes = ((6, 7), (7, 20), (20,))
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    for number in range(8):
        schedule = scheduled(8 * group + number)
        try:
            kernel = ms.compile(schedule.program, trace=schedule.trace, target=HOST)
        except ms.BuildError:
            continue
        once = kernel.pack(w, bias)
        packed += not any("computes nothing from" in warning for warning in once.warnings)
        assert once(x).tobytes() == kernel(x, w, bias).tobytes(), str(schedule.trace)
    assert packed
