"""The numbers of several neighbours in one structure, varied side by side."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import metasched as ms
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.features import Features
from metasched.cost.model import CostModel
from metasched.lang.instructions import HOLE, Decision
from metasched.search.arms import transferred_numbers
from metasched.search.arms.sketch_arm import SketchArm
from metasched.search.arms.transferred_numbers import ScoredRow, WantedNumbers, best_rows
from metasched.search.rounds.population import legal
from tests.support.targets import AVX512

OWN: dict[str, Decision] = {"i": (HOLE, 6), "j": (HOLE, 32), "k": (HOLE, 8)}
MODEL = CostModel(0)


@ms.rule
def tiles(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Tile all loops of a product."""
    for loop in sch.get_loops(block):
        sch.split(loop, sch.sample_tile(loop, parts=2))


@ms.rule
def idle(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Draw a number that decides nothing: no loop is so short."""
    sch.annotate(block, "unroll_limit", sch.sample_categorical([4, 3, 2], probabilities=[0.5, 0.15, 0.35]))


def arm_of(rows: int = 48) -> SketchArm:
    space = ms.space(ms.operator("matmul_nn", M=rows, N=64, K=64), [tiles], target=AVX512)
    return SketchArm(space[0], AVX512, DEFAULT_CORE)


def best(arm: SketchArm, *wanted: WantedNumbers) -> list[tuple[tuple[int, ...], float] | None]:
    found = best_rows(arm, MODEL, wanted)
    return [None if one is None else (tuple(one.row.tolist()), round(one.score, 4)) for one in found]


def test_what_is_found_for_one_does_not_depend_on_the_others() -> None:
    """Some have all numbers, some lack one, and some are varied in more rounds."""
    arm = arm_of()
    own = {address: OWN[address[-1]] for address in (v.address for v in arm.sketch.variables)}
    lacking = dict(list(own.items())[1:])
    wanted = [WantedNumbers(own, 1), WantedNumbers(own, 8), WantedNumbers(lacking, 1), WantedNumbers(own, 0)]
    together = best(arm, *wanted)
    assert together == [only for one in wanted for only in best(arm, one)]
    assert together[3] is not None
    assert together[3][0] == (6, 32, 8)


def test_a_varied_row_is_taken_for_a_gain_that_is_asked_for() -> None:
    arm = arm_of()
    own = {v.address: OWN[v.address[-1]] for v in arm.sketch.variables}
    little, much = best_rows(arm, MODEL, [WantedNumbers(own, 4, gain=0.5), WantedNumbers(own, 4, gain=1e6)])
    assert little is not None
    assert much is not None
    assert tuple(much.row) == (6, 32, 8) != tuple(little.row)


def test_more_rounds_find_nothing_worse() -> None:
    arm = arm_of()
    scores = [one.score for one in best_rows(arm, MODEL, [WantedNumbers({}, n) for n in (0, 1, 4, 8)]) if one]
    assert scores == sorted(scores)
    assert len(scores) == 4


class Indifferent(CostModel):
    """A model to which all rows are alike, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__(0)
        self.asked = 0
        self.rows = 0

    def predict(self, features: Features) -> np.ndarray:
        self.asked += 1
        self.rows += len(features)
        return np.zeros(len(features))


def test_rounds_end_with_one_that_finds_nothing_better() -> None:
    arm = arm_of()
    own = {v.address: OWN[v.address[-1]] for v in arm.sketch.variables}
    for numbers, asked in ((own, 1), ({}, 2)):
        model = Indifferent()
        best_rows(arm, model, [WantedNumbers(numbers, 8)])
        assert model.asked == asked


def test_rows_that_cannot_be_taken_are_not_looked_at() -> None:
    arm, model = arm_of(), Indifferent()
    own = {v.address: OWN[v.address[-1]] for v in arm.sketch.variables}
    (found,) = best_rows(arm, model, [WantedNumbers(own, 8, gain=inf)])
    assert found is not None
    assert tuple(found.row) == (6, 32, 8)
    assert model.rows == 1


def test_climbs_are_drawn_several_at_once() -> None:
    model = Indifferent()
    best_rows(arm_of(), model, [WantedNumbers({}, 8, climbs=16)])
    assert model.asked <= 5


@pytest.mark.parametrize("ahead", [2, 5, 16])
def test_climbs_that_are_drawn_together_find_what_they_find_one_after_another(
    ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = arm_of(rows=48)
    wanted = [WantedNumbers({}, 3, climbs=n, drawn=drawn) for n in (1, 4, 16) for drawn in (2, 32)]
    monkeypatch.setattr(transferred_numbers, "_LEAST_CLIMBS_AHEAD", 1)
    one_by_one = [only for one in wanted for only in best(arm, one)]
    monkeypatch.setattr(transferred_numbers, "_LEAST_CLIMBS_AHEAD", ahead)
    assert best(arm, *wanted) == one_by_one


def test_a_row_is_scored_once() -> None:
    """Of three loops of 4 there are 64 tiles at most."""
    space = ms.space(ms.operator("matmul_nn", M=4, N=4, K=4), [tiles], target=AVX512)
    model, arm = Indifferent(), SketchArm(space[0], AVX512, DEFAULT_CORE)
    best_rows(arm, model, [WantedNumbers({}, 0, climbs=16)] * 2)
    assert 0 < model.rows <= 64


def test_a_number_that_is_lacking_is_the_likely_one_where_nothing_is_gained() -> None:
    space = ms.space(ms.operator("matmul_nn", M=48, N=64, K=64), [tiles, idle], target=AVX512)
    arm = SketchArm(space[0], AVX512, DEFAULT_CORE)
    own = {v.address: OWN[v.address[-1]] for v in arm.sketch.variables if v.address.startswith("tiles")}
    (place,) = (v.span for v in arm.sketch.variables if v.address not in own)
    (found,) = best_rows(arm, MODEL, [WantedNumbers(own, 0)])
    assert found is not None
    assert found.row[place].tolist() == [4]


def test_numbers_that_no_rule_prefers_are_the_best_drawn_however_little_is_gained() -> None:
    arm = arm_of(rows=250)
    drawn = legal(arm, arm.sample(np.random.default_rng(0), 32))
    (found,) = best_rows(arm, MODEL, [WantedNumbers({}, 0)])
    assert found is not None
    assert found.score == MODEL.predict(arm.features(drawn)).max()


def test_the_row_is_legal() -> None:
    arm = arm_of(rows=7)
    (found,) = best_rows(arm, MODEL, [WantedNumbers({"tiles(C)/i": (HOLE, 48)}, 1)])
    assert isinstance(found, ScoredRow)
    assert arm.mask(found.row[None]).all()
    assert (arm.repair(found.row[None]) == found.row).all()


def test_nothing_is_asked_for() -> None:
    assert best_rows(arm_of(), MODEL, []) == []
