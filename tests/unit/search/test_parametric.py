"""An arm made of a symbolic program and its random variables."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.model import CostModel
from metasched.ir.affine import const
from metasched.ir.nodes import Binary, BinOp, Var
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.distributions.tile import Tile
from metasched.search.evolution import Evolution, EvolutionConfig
from metasched.search.parametric import ParametricArm, Variable
from tests.unit.cost.conftest import Machine, dense_relu

FUNC = dense_relu(500, 512, 127)
LEGAL = [Var("a2") * Var("b2") <= 512]


def arm() -> ParametricArm:
    """The tile of k is tiled again by nothing; b1 is drawn from what b2 leaves of the extent."""
    return ParametricArm(
        FUNC,
        [
            Variable(Tile(const(500), 3), ("a1", "a2")),
            Variable(Tile(const(512), 2), ("b2",)),
            Variable(Tile(Binary(BinOp.CEILDIV, const(512), Var("b2")), 2), ("b1",)),
            Variable(Tile(const(127), 2, innermost=127), ("c1",)),
            Variable(Categorical((1, 16, 64), (0.2, 0.4, 0.4)), ("limit",)),
        ],
        LEGAL,
        Machine(),
    )


def named(a: ParametricArm, rows: np.ndarray, name: str) -> np.ndarray:
    return rows[:, a.columns.index(name)]


def test_draws_are_in_the_support() -> None:
    a = arm()
    rows = a.sample(np.random.default_rng(0), 500)
    assert rows.shape == (500, 6)
    np.testing.assert_array_equal(a.repair(rows), rows)
    assert (named(a, rows, "b1") * named(a, rows, "b2") < 512 + named(a, rows, "b2")).all()
    assert set(named(a, rows, "limit")) == {1, 16, 64}


def test_a_later_support_follows_a_repaired_earlier_one() -> None:
    a = arm()
    row = a.repair(np.array([[1, 1, 64, 4000, 1, 10]]))
    assert named(a, row, "b1") == 8
    assert named(a, row, "limit") == 16


def test_mutation_changes_one_variable_and_stays_repairable() -> None:
    a = arm()
    rows = a.sample(np.random.default_rng(0), 300)
    changed = a.mutate(np.random.default_rng(1), rows) != rows
    groups = np.stack([changed[:, list(g)].any(axis=1) for g in a.groups], axis=1)
    assert groups.sum(axis=1).max() == 1
    assert groups.any(axis=0).all()
    assert changed.any(axis=1).mean() > 0.5


def test_the_mask_is_the_constraints() -> None:
    a = arm()
    rows = a.sample(np.random.default_rng(0), 300)
    np.testing.assert_array_equal(a.mask(rows), named(a, rows, "a2") * named(a, rows, "b2") <= 512)


def test_no_variable_is_one_row() -> None:
    a = ParametricArm(FUNC.map(lambda n: n), [], [], Machine())
    rows = a.sample(np.random.default_rng(0), 3)
    assert rows.shape == (3, 0)
    assert a.mask(rows).all()
    assert a.mutate(np.random.default_rng(0), rows).shape == (3, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_evolution_runs_on_it(seed: int) -> None:
    a = arm()
    found = Evolution([a], CostModel(), seed, EvolutionConfig(population=64, generations=1)).propose(8)
    rows = np.array([c.row for c in found])
    assert len(found) == 8
    assert a.mask(rows).all()
    np.testing.assert_array_equal(a.repair(rows), rows)
