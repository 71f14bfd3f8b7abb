"""A machine that is made up, what a model learns there, and whether that is counted right."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.contest import elsewhere
from benchmarks.contest.elsewhere import DESKTOP, as_here, in_ratio
from benchmarks.contest.models import ELSEWHERE_AS_HERE, ELSEWHERE_IN_RATIO, SCRATCH, TRANSFERRED
from benchmarks.pretraining import CODES, of_models, of_operators
from benchmarks.yardstick.details import Details
from benchmarks.yardstick.samples import Samples
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.features import NAMES
from metasched.cost.learning.ranking import Array
from metasched.cost.learning.training import residual
from tests.support.targets import AVX512

CYCLES = NAMES.index("all.total_cycles")


def _samples(cycles: list[float]) -> Samples:
    features = np.zeros((len(cycles), len(NAMES)), np.float32)
    features[:, CYCLES] = np.log2(cycles)
    seconds = np.array([3e-3, 1e-3])
    return Samples("t", "f", None, "space", features, Details.__new__(Details), seconds, 2 * seconds, 1e-3)


def test_a_made_up_machine_has_other_caches_and_constants_and_the_same_instructions() -> None:
    target, core = DESKTOP.target(AVX512), DESKTOP.core(DEFAULT_CORE)
    assert (target.l1, target.l2) == (AVX512.l1, AVX512.l2 // 4)
    assert (target.features, target.threads, target.name) == (AVX512.features, AVX512.threads, AVX512.name)
    assert core.memory_bytes == DEFAULT_CORE.memory_bytes / 2
    assert core.loop_overhead == DEFAULT_CORE.loop_overhead


def test_times_in_ratio_leave_the_roofline_as_wrong_as_here_and_times_as_here_do_not() -> None:
    here, there = _samples([1024.0, 4096.0]), _samples([4096.0, 2048.0])
    ratio, kept = in_ratio(there, here), as_here(there, here)
    assert ratio.seconds == pytest.approx([12e-3, 0.5e-3])
    assert residual(ratio) == pytest.approx(residual(elsewhere.times_of(here)))
    assert kept.seconds == pytest.approx([3e-3, 1e-3])
    assert ratio.features is there.features
    assert kept.features is there.features


def test_operators_are_counted_where_the_mean_of_seeds_after_so_many_codes_is_less() -> None:
    def courses(a: float, b: float) -> dict[str, Array]:
        # The last code is the one that counts; seeds differ by a factor each way, which a geometric mean cancels.
        found = {"A": np.full((2, CODES), 9.0), "B": np.full((2, CODES), 9.0)}
        found["A"][:, -1], found["B"][:, -1] = (a * 2, a / 2), (b, b)
        return found

    played = {
        SCRATCH: courses(2.0, 2.0),
        ELSEWHERE_IN_RATIO: courses(1.0, 4.0),
        ELSEWHERE_AS_HERE: courses(1.999, 2.0),
        TRANSFERRED: courses(1.0, 1.0),
    }
    first, _ = of_operators(played)
    assert first["case"] == "A"
    assert first["regret_without"] == pytest.approx(2.0)
    assert first[f"{ELSEWHERE_IN_RATIO}: ratio"] == pytest.approx(0.5)
    lines = {line["case"]: line for line in of_models(played)}
    counts = [
        (line["better"], line["better_by_half_a_percent"], line["worse_by_half_a_percent"]) for line in lines.values()
    ]
    assert counts == [(1, 1, 1), (1, 0, 0), (2, 2, 0)]
    assert lines[ELSEWHERE_IN_RATIO]["mean_ratio"] == pytest.approx(1.0)
    assert lines[TRANSFERRED]["mean_ratio"] == pytest.approx(0.5)
