"""The frozen table as a space: nothing but its rows comes out of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.contest.described import Table
from benchmarks.contest.frozen import NEAR_COUNT, TableArms
from metasched.search.rounds.population import crossover, draw, legal
from metasched.search.space_protocol import Candidate
from tests.unit.benchmarks.contest.conftest import TILES


@pytest.fixture
def arms(table: Table) -> TableArms:
    return TableArms(table)


def members(rows: np.ndarray) -> bool:
    return bool(np.isin(rows, TILES).all())


def test_repair_takes_the_nearest_row_and_keeps_those_that_are_there(arms: TableArms) -> None:
    arm = arms[0]
    there = arm.structure.rows
    assert (arm.repair(there) == there).all()
    assert arm.repair(np.array([(23, 11), (100, 9), (0, 20)])).tolist() == [[24, 12], [24, 8], [1, 24]]
    assert arm.mask(there).all()


def test_draws_come_from_the_prior_alone(arms: TableArms, table: Table) -> None:
    rng = np.random.default_rng(0)
    assert set(draw(rng, arms[0], 500)[:, 1].tolist()) <= {1, 2, 3, 4}
    # Where nothing came from the prior, anything may be drawn, and such a structure is not.
    bred = replace(table.structures[1], drawn=np.zeros(len(table.structures[1]), np.bool_))
    without = TableArms(replace(table, structures=(table.structures[0], bred)))
    assert set(without[1].sample(rng, 500)[:, 1].tolist()) == set(TILES)
    assert {without.draw(rng) for _ in range(50)} == {0}


def test_a_mutation_is_another_row_and_mostly_one_number_apart(arms: TableArms) -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat(np.array([(4, 4)]), 400, axis=0)
    changed = arms[0].mutate(rng, rows)
    apart = (changed != rows).sum(axis=1)
    assert apart.min() == 1
    assert np.mean(apart == 1) > 0.9
    assert len(np.unique(changed, axis=0)) == NEAR_COUNT
    alone = TableArms(Table("one", arms.table.program, (_first_row(arms.table),)))
    assert alone[0].mutate(rng, alone[0].structure.rows).tolist() == [[1, 1]]
    assert alone.mutate(rng, 0) is None


def _first_row(table: Table):  # type: ignore[no-untyped-def]
    one = table.structures[0]
    return replace(one, rows=one.rows[:1], seconds=one.seconds[:1], features=one.features[:1], drawn=one.drawn[:1])


def test_what_crossing_and_adopting_make_is_moved_into_the_table(arms: TableArms) -> None:
    rng = np.random.default_rng(0)
    some = arms[0].structure.rows[rng.permutation(64)]
    assert members(legal(arms[0], crossover(rng, arms[0], some, some[::-1])))
    adopted = legal(arms[1], arms[1].adopt(rng, arms[0], some))
    assert (adopted[:, 0] == some[:, 0]).all(), "the variable of both is kept"
    assert set(adopted[:, 1].tolist()) <= {1, 2, 3, 4}, "the other is drawn"


def test_structures_are_changed_to_near_ones_and_mixed(arms: TableArms) -> None:
    rng = np.random.default_rng(0)
    changed = [arms.mutate(rng, 0) for _ in range(200)]
    assert changed.count(1) > changed.count(2) > 0
    assert 0 not in changed
    assert {arms.cross(rng, 0, 1) for _ in range(100)} >= {0, 1}
    assert arms.of(rng, {"fusion": "late"}) == 2
    assert {arms.of(rng, {"order": "rows"}) for _ in range(50)} == {0, 1}


def test_choices_are_those_that_the_table_has_after_the_same_decisions(arms: TableArms) -> None:
    (fusion,) = arms.choices(0)
    assert fusion.address == "fusion"
    assert fusion.options == ("cache", "late", "none")
    assert fusion.options[fusion.taken] == "none"
    assert [choice.address for choice in arms.choices(2)] == ["fusion"], "after it, all that decide so decide alike"


def test_a_time_is_that_of_its_row_and_features_go_with_it(arms: TableArms) -> None:
    assert arms.seconds(Candidate(0, (24, 24))) == arms.table.best_s
    assert arms[0].features(np.array([(6, 12)]))[0, :2].tolist() == [6, 12]
    with pytest.raises(KeyError, match="was not measured"):
        arms.seconds(Candidate(0, (5, 5)))
