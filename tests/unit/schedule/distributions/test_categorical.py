from __future__ import annotations

import numpy as np
import pytest

from metasched.ir.integers.affine import const
from metasched.ir.nodes import Var
from metasched.schedule.distributions.categorical import Categorical

DIST = Categorical((16, 4, 8), (0.5, 0.25, 0.25))


@pytest.mark.parametrize(
    ("decision", "inside"),
    [(4, True), (16, True), (5, False), (True, False), ("4", False), (4.0, False), (None, False)],
)
def test_what_is_in_the_support(decision: object, inside: bool) -> None:
    assert DIST.contains(decision) is inside  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "mended"), [(4, 4), (5, 4), (6, 4), (7, 8), (-3, 4), (1000, 16), ("x", 16)])
def test_mending_takes_the_nearest(given: object, mended: int) -> None:
    assert DIST.repair(given) == mended  # type: ignore[arg-type]


@pytest.mark.parametrize("value", range(-2, 30))
def test_one_and_many_are_mended_alike(value: int) -> None:
    rows = DIST.repair_rows(np.array([[value]]), np.zeros(1, np.int64))
    assert DIST.decode(rows[0]) == DIST.repair(value)


def test_draws_and_mutants_are_in_the_support() -> None:
    rng = np.random.default_rng(0)
    none = np.zeros(64, np.int64)
    rows = DIST.sample_rows(rng, none)
    assert rows.shape == (64, 1)
    assert rows.dtype == np.int64
    assert set(rows[:, 0]) == {4, 8, 16}
    assert set(DIST.mutate_rows(rng, rows, none)[:, 0]) == {4, 8, 16}
    assert DIST.contains(DIST.sample(rng))


def test_the_rest_of_the_interface() -> None:
    assert not DIST.structural
    assert DIST.width == 1
    assert DIST.outputs(8) == (const(8),)
    assert DIST.free_outputs([Var("x")]) == (Var("x"),)
    assert DIST.column_names(("t3",)) == ("t3",)
    assert DIST.encode(8) == (8,)
    assert DIST.options() == (16, 4, 8)
    assert DIST.neighbours(4) == (16, 8)
    assert DIST.support() == "one of 16, 4, 8"


def test_the_likeliest_is_at_least_half_of_all_draws_and_the_only_one() -> None:
    values = (1, 2, 3)
    assert Categorical(values, (0.2, 0.5, 0.3)).likeliest == 2
    assert Categorical(values, (0.4, 0.35, 0.25)).likeliest is None
    assert Categorical((1, 2), (0.5, 0.5)).likeliest is None
